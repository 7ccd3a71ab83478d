"""Classes of Workloads, from annotations on their templates."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.store.memory import MemoryStore
from tests.qosclasses.planet import BLOCKIO, Json, causes, made, serving
from tests.server.conftest import Client

WORKLOADS = "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloads"
PATH = "spec.template.metadata.annotations"
SANDBOX: Json = {
    "containers": [{"name": "web", "image": "example.com/web:1"}],
    "initContainers": [{"name": "first", "image": "example.com/web:1"}],
}
MACHINE: Json = {"volumeAttachments": [{"name": "boot"}]}
BOOT: Json = {
    "name": "boot",
    "disk": {
        "template": {
            "spec": {
                "type": "pd-standard",
                "resources": {"requests": {"storage": "30Gi"}},
                "populator": {"image": {"name": "datumcloud/ubuntu-2204-lts"}},
            }
        }
    },
}


def workload(annotations: Json, **runtime: Json) -> Json:
    chosen: Json = runtime or {"sandbox": SANDBOX}
    spec: dict[str, Any] = {
        "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}, **chosen},
        "networkInterfaces": [{"network": {"name": "default"}}],
        "volumes": [BOOT] if "virtualMachine" in chosen else [],
    }
    placements = [{"name": "us", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}]
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "web"},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": spec}, "placements": placements},
    }


@pytest.mark.parametrize("key", ["default", "container.web", "container.first"])
async def test_annotations_for_its_containers_are_taken(api: Client, key: str) -> None:
    await made(api, WORKLOADS, workload({f"{BLOCKIO}/{key}": "slow"}))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("container.other", "slow", "container not found"),
        ("all", "slow", "must end in /default or /container.NAME"),
        ("default", "", "must be the name of a class"),
        ("default", "a b", "a valid label must be"),
    ],
)
async def test_annotations_that_make_no_sense_are_refused_with_the_workload(
    api: Client, key: str, value: str, message: str
) -> None:
    (cause, *_) = causes(await api.post(WORKLOADS, workload({f"{BLOCKIO}/{key}": value})))
    assert cause[0] == f"{PATH}[{BLOCKIO}/{key}]"
    assert message in cause[1]


async def test_the_container_of_a_virtual_machine_is_called_machine(api: Client) -> None:
    await made(api, WORKLOADS, workload({f"{BLOCKIO}/container.machine": "slow"}, virtualMachine=MACHINE))
    other = workload({f"{BLOCKIO}/container.vm": "slow"}, virtualMachine=MACHINE)
    other["metadata"]["name"] = "other"
    assert causes(await api.post(WORKLOADS, other))[0][0] == f"{PATH}[{BLOCKIO}/container.vm]"


async def test_unchanged_classes_are_not_validated_again(store: MemoryStore) -> None:
    wrong = {f"{BLOCKIO}/container.other": "slow"}
    async with serving(store, class_resources=False) as api:
        await made(api, WORKLOADS, workload(wrong))
    async with serving(store) as api:
        assert (await api.patch(f"{WORKLOADS}/web", {"metadata": {"labels": {"a": "b"}}})).status == 200
        changed = {"spec": {"template": {"metadata": {"annotations": {**wrong, f"{BLOCKIO}/default": "slow"}}}}}
        assert causes(await api.patch(f"{WORKLOADS}/web", changed))[0][0] == f"{PATH}[{BLOCKIO}/container.other]"


def two_classes() -> Json:
    return {f"{BLOCKIO}/container.first": "fast", f"{BLOCKIO}/default": "slow"}


async def test_containers_of_a_sandbox_agree_in_the_template_already(api: Client) -> None:
    (cause,) = causes(await api.post(WORKLOADS, workload(two_classes())))
    assert cause[0] == f"{PATH}[{BLOCKIO}/default]"
    assert "container web asks for class blockio/slow and container first for blockio/fast" in cause[1]
    await made(api, WORKLOADS, workload({**two_classes(), "compute.datumapis.com/runtime-class": "runc"}))
