"""A deleted namespace is emptied, reports obstacles and is removed; a live one has its account and CA bundle."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tarmac.controllers.manager import ControllerManager
from tests.controllers.harness import Stage, playing

Json = dict[str, Any]


@asynccontextmanager
async def managing(names: str) -> AsyncGenerator[Stage]:
    stage = Stage()
    async with playing(stage, ControllerManager(stage.client, names, root_ca=lambda: "-- CA --").run):
        yield stage


def namespace(stage: Stage, name: str) -> Json:
    return stage.server.put("namespaces", name, spec={"finalizers": ["kubernetes"]}, status={"phase": "Active"})


def conditions(stage: Stage, name: str) -> dict[str, Json]:
    found = stage.server.find("namespaces", name)
    assert found is not None
    return {each["type"]: each for each in found["status"]["conditions"]}


async def test_a_deleted_namespace_goes_with_everything_in_it() -> None:
    async with managing("namespace") as stage:
        namespace(stage, "doomed")
        for kind in ("configmaps", "secrets", "pods", "leases"):
            stage.server.put(kind, "thing", "doomed")
        stage.server.put("secrets", "thing", "default")
        await stage.settle()
        stage.server.remove("namespaces", "doomed")
        await stage.settle()
        assert stage.server.find("namespaces", "doomed") is None
        assert [place.namespace for place in stage.server.objects] == ["default"]


async def test_remaining_content_is_reported_in_conditions() -> None:
    async with managing("namespace") as stage:
        namespace(stage, "doomed")
        stage.server.put("secrets", "held", "doomed", metadata={"finalizers": ["example.com/hold"]})
        await stage.settle()
        stage.server.remove("namespaces", "doomed")
        await stage.settle()
        said = conditions(stage, "doomed")
        assert said["NamespaceContentRemaining"]["status"] == "True"
        assert said["NamespaceContentRemaining"]["message"] == (
            "Some resources are remaining: secrets. has 1 resource instances"
        )
        assert said["NamespaceFinalizersRemaining"]["message"] == (
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        )
        assert said["NamespaceDeletionContentFailure"]["status"] == "False"
        since = said["NamespaceContentRemaining"]["lastTransitionTime"]
        await stage.settle(60)
        assert conditions(stage, "doomed")["NamespaceContentRemaining"]["lastTransitionTime"] == since
        stage.server.put("secrets", "held", "doomed", metadata={"finalizers": []})
        await stage.settle(10)
        assert stage.server.find("namespaces", "doomed") is None


async def test_pods_go_before_what_they_use() -> None:
    async with managing("namespace") as stage:
        namespace(stage, "doomed")
        stage.server.put("pods", "stopping", "doomed", metadata={"finalizers": ["example.com/grace"]})
        stage.server.put("secrets", "needed", "doomed")
        await stage.settle()
        stage.server.remove("namespaces", "doomed")
        await stage.settle()
        assert stage.server.find("secrets", "needed", "doomed"), "the pod still runs"
        stage.server.put("pods", "stopping", "doomed", metadata={"finalizers": []})
        await stage.settle(10)
        assert stage.server.find("namespaces", "doomed") is None


async def test_a_namespace_that_is_not_deleted_is_left_alone() -> None:
    async with managing("namespace") as stage:
        namespace(stage, "alive")
        stage.server.put("secrets", "thing", "alive")
        await stage.settle(30)
        assert stage.server.find("secrets", "thing", "alive")


async def test_every_namespace_has_an_account_and_the_ca() -> None:
    async with managing("serviceaccount") as stage:
        namespace(stage, "new")
        await stage.settle()
        assert stage.server.find("serviceaccounts", "default", "new")
        ca = stage.server.find("configmaps", "kube-root-ca.crt", "new")
        assert ca is not None
        assert ca["data"] == {"ca.crt": "-- CA --"}


async def test_deleted_accounts_and_changed_ca_bundles_are_restored() -> None:
    async with managing("serviceaccount") as stage:
        namespace(stage, "new")
        await stage.settle()
        stage.server.remove("serviceaccounts", "default", "new")
        stage.server.put("configmaps", "kube-root-ca.crt", "new", data={"ca.crt": "forged"})
        await stage.settle()
        assert stage.server.find("serviceaccounts", "default", "new")
        ca = stage.server.find("configmaps", "kube-root-ca.crt", "new")
        assert ca is not None
        assert ca["data"] == {"ca.crt": "-- CA --"}


async def test_a_terminating_namespace_gets_nothing_new() -> None:
    async with managing("serviceaccount") as stage:
        stage.server.put("namespaces", "old", spec={"finalizers": ["kubernetes"]})
        stage.server.remove("namespaces", "old")
        await stage.settle()
        asked = [path for method, path in stage.server.requests if method == "POST"]
        assert asked == []
