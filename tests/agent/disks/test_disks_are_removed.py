"""A disk is removed when its volume is deleted, before the volume is; nothing else removes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from tarmac.agent.disks.controller import DiskRemoval
from tarmac.api.compute.names import DISK_FINALIZER, LABEL_DISK_NODE
from tarmac.apps.control_plane import local_transport
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.targets.untyped import VOLUMES
from tarmac.server.security.users import User
from tarmac.volumes.interface import VolumeNotReady, Volumes
from tests.client import backends

NODE = User("system:node:n1", groups=("system:nodes", "system:authenticated"))


class Disks:
    """Existing disks, and disks in use."""

    def __init__(self, *names: str) -> None:
        self.present = set(names)
        self.used: set[str] = set()

    async def remove_disk(self, name: str) -> None:
        if name in self.used:
            raise VolumeNotReady(name, "in use")
        self.present.discard(name)


def volume(name: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {LABEL_DISK_NODE: node}, "finalizers": [DISK_FINALIZER]},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": f"disks/{name}.img"},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchFields": [_field("metadata.name", node)]}]},
            },
        },
    }


def _field(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [value]}


@asynccontextmanager
async def removing(tmp_path: Path, disks: Disks) -> AsyncGenerator[Client]:
    """Run a server with its controllers, the agent of node n1 with a node's rights, and an administrator's client."""
    async with backends.our_server(tmp_path) as running:
        removal = DiskRemoval(Client(local_transport(running.server, NODE)), cast("Volumes", disks), "n1")
        async with background(removal.run(), "removal of disks"):
            yield Client(local_transport(running.server, backends.ADMIN))


async def eventually(check: Any) -> None:
    async with asyncio.timeout(5):
        while not await check():
            await asyncio.sleep(0.01)


async def test_only_deleted_volumes_of_this_node_lose_their_disks(tmp_path: Path) -> None:
    disks = Disks("mine", "kept", "theirs")
    async with removing(tmp_path, disks) as client:
        volumes = client.resource(VOLUMES)
        for name, node in (("mine", "n1"), ("kept", "n1"), ("theirs", "n2")):
            await volumes.create(volume(name, node))
        await volumes.delete("mine")
        await volumes.delete("theirs")

        async def gone() -> bool:
            return {each["metadata"]["name"] for each in (await volumes.list()).items} == {"kept", "theirs"}

        await eventually(gone)
        assert disks.present == {"kept", "theirs"}


async def test_a_volume_stays_while_its_disk_is_in_use(tmp_path: Path) -> None:
    disks = Disks("busy")
    disks.used.add("busy")
    async with removing(tmp_path, disks) as client:
        volumes = client.resource(VOLUMES)
        await volumes.create(volume("busy", "n1"))
        await volumes.delete("busy")
        await asyncio.sleep(0.05)
        assert DISK_FINALIZER in (await volumes.get("busy"))["metadata"]["finalizers"]
        assert disks.present == {"busy"}
