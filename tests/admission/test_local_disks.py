"""A node may remove its finalizer from volumes whose disks it has deleted, and change volumes in no other way."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tarmac.api.compute.names import DISK_FINALIZER, LABEL_DISK_NODE
from tarmac.api.status import Forbidden
from tarmac.server.security.users import User
from tests.admission.world import World

NODE = User("system:node:n1", groups=("system:nodes",))
Object = dict[str, Any]


def volume(**metadata: Any) -> Object:
    known: Object = {
        "name": "pv",
        "labels": {LABEL_DISK_NODE: "n1"},
        "finalizers": ["kubernetes.io/pv-protection", DISK_FINALIZER],
        "deletionTimestamp": "2026-11-15T12:00:00Z",
        "managedFields": [{"manager": "a"}],
    }
    known |= metadata
    return {"metadata": {k: v for k, v in known.items() if v is not None}, "spec": {"capacity": {"storage": "1Gi"}}}


def without_finalizer(obj: Object) -> None:
    obj["metadata"]["finalizers"].remove(DISK_FINALIZER)
    obj["metadata"]["managedFields"].append({"manager": "b"})


def change(world: World, old: Object, changed: Callable[[Object], object], user: User = NODE) -> None:
    world.resource("persistentvolumes").strategy.default(old)
    new = copy.deepcopy(old)
    changed(new)
    world.admit("persistentvolumes", new, "LocalDiskRemoval", old=old, user=user)


async def test_the_finalizer_of_a_deleted_volume_can_go(world: World) -> None:
    change(world, volume(), without_finalizer)


@pytest.mark.parametrize(
    ("old", "changed"),
    [
        (volume(labels={LABEL_DISK_NODE: "n2"}), without_finalizer),
        (volume(labels=None), without_finalizer),
        (volume(deletionTimestamp=None), without_finalizer),
        (volume(), lambda obj: obj["metadata"]["finalizers"].clear()),
        (volume(), lambda obj: obj["spec"]["capacity"].update(storage="9Gi")),
        (volume(), lambda obj: obj["metadata"]["labels"].clear()),
    ],
)
async def test_nothing_else_can(world: World, old: Object, changed: Callable[[Object], object]) -> None:
    with pytest.raises(Forbidden):
        change(world, old, changed)
    change(world, old, changed, User("admin"))


async def test_a_node_makes_no_volumes(world: World) -> None:
    with pytest.raises(Forbidden):
        world.admit("persistentvolumes", volume(), "LocalDiskRemoval", user=NODE)
