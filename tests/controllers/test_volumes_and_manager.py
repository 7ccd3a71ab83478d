"""Volumes in use stay; controllers are selected by name and stop when leadership is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tarmac.client.leader import Elector
from tarmac.controllers.manager import CONTROLLERS, ControllerManager, choose
from tests.controllers.harness import Stage, playing

CLAIM = "kubernetes.io/pvc-protection"
VOLUME = "kubernetes.io/pv-protection"


def pod_using(claim: str, node: str = "n1") -> dict[str, Any]:
    return {"spec": {"nodeName": node, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}}


async def test_a_claim_stays_while_a_pod_uses_it() -> None:
    stage = Stage()
    async with playing(stage, ControllerManager(stage.client, "volume").run):
        server = stage.server
        server.put("persistentvolumeclaims", "disk", metadata={"finalizers": [CLAIM]})
        server.put("pods", "user", **pod_using("disk"))
        await stage.settle()
        server.remove("persistentvolumeclaims", "disk")
        await stage.settle()
        assert server.find("persistentvolumeclaims", "disk")
        server.remove("pods", "user")
        await stage.settle()
        assert server.find("persistentvolumeclaims", "disk") is None


async def test_a_pod_without_a_node_does_not_hold_a_claim() -> None:
    stage = Stage()
    async with playing(stage, ControllerManager(stage.client, "volume").run):
        stage.server.put("persistentvolumeclaims", "disk", metadata={"finalizers": [CLAIM]})
        stage.server.put("pods", "waiting", **pod_using("disk", node=""))
        await stage.settle()
        stage.server.remove("persistentvolumeclaims", "disk")
        await stage.settle()
        assert stage.server.find("persistentvolumeclaims", "disk") is None


async def test_a_volume_stays_while_it_is_bound() -> None:
    stage = Stage()
    async with playing(stage, ControllerManager(stage.client, "volume").run):
        server = stage.server
        server.put("persistentvolumes", "pv", metadata={"finalizers": [VOLUME]}, status={"phase": "Bound"})
        await stage.settle()
        server.remove("persistentvolumes", "pv")
        await stage.settle()
        assert server.find("persistentvolumes", "pv")
        server.put("persistentvolumes", "pv", status={"phase": "Released"})
        await stage.settle()
        assert server.find("persistentvolumes", "pv") is None


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ("*", list(CONTROLLERS)),
        ("*,-garbage,-volume", [name for name in CONTROLLERS if name not in ("garbage", "volume")]),
        ("volume,garbage", ["garbage", "volume"]),
        ("garbage,-garbage", []),
        ("", []),
    ],
)
def test_controllers_are_chosen_as_kube_controller_manager_does(words: str, chosen: list[str]) -> None:
    assert choose(words) == chosen


def test_a_controller_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="no such controller: garbge; there are garbage"):
        choose("*,-garbge")


async def test_only_the_leader_acts_and_a_stopped_one_hands_over() -> None:
    stage = Stage()
    managers = [
        ControllerManager(
            stage.client,
            "serviceaccount",
            elector=Elector(stage.client, "tarmac-controllers", "kube-system", identity),
        )
        for identity in ("one", "two")
    ]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(manager.run()) for manager in managers]
        await stage.settle()
        leaders = [manager for manager in managers if manager.metrics.controllers]
        assert len(leaders) == 1
        stage.server.put("namespaces", "a", spec={"finalizers": ["kubernetes"]})
        await stage.settle()
        assert stage.server.find("serviceaccounts", "default", "a")
        tasks[managers.index(leaders[0])].cancel()
        await stage.settle(10)
        stage.server.put("namespaces", "b", spec={"finalizers": ["kubernetes"]})
        await stage.settle(10)
        assert stage.server.find("serviceaccounts", "default", "b")
        for task in tasks:
            task.cancel()


async def test_the_numbers_have_the_names_operators_know() -> None:
    stage = Stage()
    manager = ControllerManager(stage.client, "*")
    async with playing(stage, manager.run):
        stage.server.put("namespaces", "a", spec={"finalizers": ["kubernetes"]})
        await stage.settle()
        families = {name: list(samples) for name, _, _, samples in manager.metrics.families()}
        adds = {dict(labels)["name"]: value for _, labels, value in families["workqueue_adds_total"]}
        assert adds["namespace"] == 1
        assert {"workqueue_depth", "workqueue_queue_duration_seconds", "leader_election_master_status"} <= set(families)
        lists = {dict(labels)["resource"]: value for _, labels, value in families["reflector_lists_total"]}
        assert lists["namespaces"] == 1
        counted = [value for name, _, value in families["workqueue_work_duration_seconds"] if name.endswith("_count")]
        assert max(counted) >= 1
