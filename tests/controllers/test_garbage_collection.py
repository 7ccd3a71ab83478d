"""Dependents of a deleted owner: background, foreground and orphan deletion, and invalid references."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tarmac.client.eventrecorder import Recorder
from tarmac.controllers.garbage.collector import GarbageCollector
from tests.controllers.harness import Stage, playing

Json = dict[str, Any]


@asynccontextmanager
async def collecting(stage: Stage | None = None) -> AsyncGenerator[Stage]:
    stage = stage or Stage()
    recorder = Recorder(stage.client, "garbage")
    async with playing(stage, GarbageCollector(stage.client, recorder).run, recorder.run):
        yield stage


def owned_by(*owners: Json, block: bool = False) -> Json:
    return {
        "ownerReferences": [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "blockOwnerDeletion": block,
            }
            for owner in owners
        ]
    }


async def test_background_dependents_go_after_their_owner() -> None:
    async with collecting() as stage:
        server = stage.server
        owner = server.put("configmaps", "owner")
        child = server.put("secrets", "child", metadata=owned_by(owner))
        server.put("pods", "grandchild", metadata=owned_by(child))
        server.put("secrets", "bystander")
        await stage.settle()
        assert server.find("secrets", "child")
        server.remove("configmaps", "owner", propagationPolicy="Background")
        assert server.find("configmaps", "owner") is None
        await stage.settle()
        assert server.find("secrets", "child") is None
        assert server.find("pods", "grandchild") is None
        assert server.find("secrets", "bystander")


async def test_foreground_the_owner_stays_until_blocking_dependents_are_gone() -> None:
    async with collecting() as stage:
        server = stage.server
        owner = server.put("configmaps", "owner")
        held = {"finalizers": ["example.com/hold"]}
        server.put("secrets", "child", metadata={**owned_by(owner, block=True), **held})
        await stage.settle()
        server.remove("configmaps", "owner", propagationPolicy="Foreground")
        await stage.settle()
        child = server.find("secrets", "child")
        assert child is not None
        assert child["metadata"]["deletionTimestamp"]
        assert server.find("configmaps", "owner"), "its child is still being deleted"
        server.put("secrets", "child", metadata={"finalizers": []})
        await stage.settle()
        assert server.find("secrets", "child") is None
        assert server.find("configmaps", "owner") is None


async def test_foreground_does_not_wait_for_dependents_that_do_not_block() -> None:
    async with collecting() as stage:
        server = stage.server
        owner = server.put("configmaps", "owner")
        server.put("secrets", "child", metadata={**owned_by(owner), "finalizers": ["example.com/hold"]})
        await stage.settle()
        server.remove("configmaps", "owner", propagationPolicy="Foreground")
        await stage.settle()
        assert server.find("configmaps", "owner") is None
        child = server.find("secrets", "child")
        assert child is not None
        assert child["metadata"]["deletionTimestamp"]


async def test_foreground_takes_a_tree_down_from_the_leaves() -> None:
    async with collecting() as stage:
        server = stage.server
        root = server.put("configmaps", "root")
        middle = server.put("configmaps", "middle", metadata=owned_by(root, block=True))
        server.put("secrets", "leaf", metadata=owned_by(middle, block=True))
        await stage.settle()
        gone: list[str] = []
        record = server._remove

        def remembering(place: Any, obj: Json) -> Json:
            gone.append(place.name)
            return record(place, obj)

        server._remove = remembering
        server.remove("configmaps", "root", propagationPolicy="Foreground")
        await stage.settle()
        assert gone == ["leaf", "middle", "root"]


async def test_foreground_deletion_of_a_circle_comes_to_an_end() -> None:
    async with collecting() as stage:
        server = stage.server
        first = server.put("configmaps", "first")
        second = server.put("configmaps", "second", metadata=owned_by(first, block=True))
        server.put("configmaps", "first", metadata=owned_by(second, block=True))
        await stage.settle()
        server.remove("configmaps", "first", propagationPolicy="Foreground")
        await stage.settle(20)
        assert server.find("configmaps", "first") is None
        assert server.find("configmaps", "second") is None


async def test_orphaned_dependents_stay_without_their_owner() -> None:
    async with collecting() as stage:
        server = stage.server
        owner = server.put("configmaps", "owner")
        other = server.put("configmaps", "other")
        server.put("secrets", "child", metadata=owned_by(owner))
        server.put("secrets", "shared", metadata=owned_by(owner, other))
        await stage.settle()
        server.remove("configmaps", "owner", propagationPolicy="Orphan")
        await stage.settle()
        assert server.find("configmaps", "owner") is None
        child, shared = server.find("secrets", "child"), server.find("secrets", "shared")
        assert child is not None
        assert shared is not None
        assert not child["metadata"].get("ownerReferences")
        assert [each["name"] for each in shared["metadata"]["ownerReferences"]] == ["other"]


async def test_an_object_with_another_owner_stays_and_loses_only_the_reference() -> None:
    async with collecting() as stage:
        server = stage.server
        owners = [server.put("configmaps", name) for name in ("one", "two")]
        server.put("secrets", "child", metadata=owned_by(*owners))
        await stage.settle()
        server.remove("configmaps", "one")
        await stage.settle()
        child = server.find("secrets", "child")
        assert child is not None
        assert [each["name"] for each in child["metadata"]["ownerReferences"]] == ["two"]
        server.remove("configmaps", "two")
        await stage.settle()
        assert server.find("secrets", "child") is None


async def test_an_owner_that_never_was_is_absent() -> None:
    async with collecting() as stage:
        ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "no-such-uid"}}
        stage.server.put("secrets", "child", metadata=owned_by(ghost))
        await stage.settle()
        assert stage.server.find("secrets", "child") is None


async def test_an_owner_replaced_by_another_of_its_name_is_absent() -> None:
    async with collecting() as stage:
        server = stage.server
        owner = server.put("configmaps", "owner")
        server.remove("configmaps", "owner")
        server.put("configmaps", "owner")
        server.put("secrets", "child", metadata=owned_by(owner))
        await stage.settle()
        assert server.find("secrets", "child") is None


async def test_an_owner_in_another_namespace_is_absent() -> None:
    async with collecting() as stage:
        owner = stage.server.put("configmaps", "owner", "elsewhere")
        stage.server.put("secrets", "child", metadata=owned_by(owner))
        await stage.settle()
        assert stage.server.find("secrets", "child") is None
        assert stage.server.find("configmaps", "owner", "elsewhere")


async def test_a_cluster_wide_owner_owns_in_every_namespace() -> None:
    async with collecting() as stage:
        owner = stage.server.put("nodes", "n1")
        stage.server.put("pods", "static", "kube-system", metadata=owned_by(owner))
        await stage.settle()
        assert stage.server.find("pods", "static", "kube-system")
        stage.server.remove("nodes", "n1")
        await stage.settle()
        assert stage.server.find("pods", "static", "kube-system") is None


async def test_a_cluster_wide_object_with_a_namespaced_owner_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    async with collecting() as stage:
        owner = stage.server.put("configmaps", "owner")
        stage.server.put("persistentvolumes", "disk", metadata=owned_by(owner))
        await stage.settle()
        assert stage.server.find("persistentvolumes", "disk")
        assert "cannot be owned" in capsys.readouterr().err
        events = [obj for place, obj in stage.server.objects.items() if place.kind.plural == "events"]
        assert [(each["reason"], each["involvedObject"]["name"]) for each in events] == [
            ("OwnerRefInvalidNamespace", "disk")
        ]


async def test_an_owner_of_an_unknown_kind_proves_nothing() -> None:
    async with collecting() as stage:
        owner = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "uid": "u"}}
        stage.server.put("secrets", "child", metadata=owned_by(owner))
        await stage.settle(100)
        assert stage.server.find("secrets", "child")


async def test_dependents_orphaned_before_the_start_are_collected() -> None:
    stage = Stage()
    owner = stage.server.put("configmaps", "owner")
    kept = stage.server.put("configmaps", "kept")
    stage.server.put("secrets", "child", metadata=owned_by(owner))
    stage.server.put("secrets", "fine", metadata=owned_by(kept))
    stage.server.remove("configmaps", "owner")
    asked = len(stage.server.requests)
    async with collecting(stage):
        await stage.settle()
        assert stage.server.find("secrets", "child") is None
        assert stage.server.find("secrets", "fine")
        gets = [path for method, path in stage.server.requests[asked:] if method == "GET" and path.endswith("/fine")]
        assert gets == [], "an object whose owner exists costs no request"


@pytest.mark.parametrize("number", range(8))
async def test_random_forests_end_with_no_object_whose_owners_are_all_gone(number: int) -> None:
    dice = random.Random(number)
    async with collecting() as stage:
        server = stage.server
        names = [f"o{n}" for n in range(24)]
        for index, name in enumerate(names):
            parents = [
                server.find("configmaps", each) for each in dice.sample(names[:index], min(index, dice.randrange(3)))
            ]
            metadata = owned_by(*[each for each in parents if each], block=dice.random() < 0.5)
            server.put("configmaps", name, metadata=metadata)
        for name in dice.sample(names, 6):
            if server.find("configmaps", name):
                policy = dice.choice(("Background", "Foreground", "Orphan"))
                server.remove("configmaps", name, propagationPolicy=policy)
            if dice.random() < 0.3:
                server.cut()
            if dice.random() < 0.3:
                server.compact()
            await stage.settle(dice.random())
        await stage.settle(60)
        left = {obj["metadata"]["uid"]: obj for obj in server.objects.values()}
        for obj in left.values():
            references = obj["metadata"].get("ownerReferences") or []
            assert all(each["uid"] in left for each in references), "a reference to a missing owner was left"
            assert "deletionTimestamp" not in obj["metadata"], "its deletion is stuck"
