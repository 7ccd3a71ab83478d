"""A deleted PersistentVolume takes its disk with it, but no passing trouble does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.agent.sources.reclaiming import ANSWERS, DiskReclaim
from tarmac.api.status import Forbidden, InternalError
from tarmac.client.client import Client
from tarmac.volumes.fake import FakeSources, FolderMedium, fake_volumes
from tarmac.volumes.interface import Volumes
from tarmac.volumes.layout import Layout
from tarmac.volumes.medium import Disk
from tests.client.model_server import ModelServer


class Node:
    """One disk, `pv-1`, and a server that knows its volume."""

    def __init__(self, folder: Path) -> None:
        self.server = ModelServer()
        self.server.put("persistentvolumes", "pv-1")
        self.volumes: Volumes = fake_volumes(str(folder), FakeSources())
        self.medium = FolderMedium(Layout(str(folder)))
        self.medium.prepare()
        self.reclaim = DiskReclaim(Client(self.server.transport(), self.server.clock), self.volumes)
        self.medium.make_disk(Disk("pv-1", 1 << 20), None)

    async def look(self, times: int) -> list[str]:
        for _ in range(times):
            await self.reclaim.look()
        return list(await self.volumes.disks())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path.resolve())


async def test_a_disk_stays_while_its_volume_does(node: Node) -> None:
    assert await node.look(10) == ["pv-1"]


async def test_a_disk_goes_when_its_volume_stays_away(node: Node) -> None:
    node.server.remove("persistentvolumes", "pv-1")
    assert await node.look(ANSWERS - 1) == ["pv-1"]
    assert await node.look(1) == []


async def test_a_volume_that_is_back_starts_the_count_again(node: Node) -> None:
    node.server.remove("persistentvolumes", "pv-1")
    await node.look(ANSWERS - 1)
    node.server.put("persistentvolumes", "pv-1")
    await node.look(1)
    node.server.remove("persistentvolumes", "pv-1")
    assert await node.look(ANSWERS - 1) == ["pv-1"]


@pytest.mark.parametrize("refusal", [Forbidden("no"), InternalError("no")])
async def test_a_server_that_does_not_say_costs_no_disk(node: Node, refusal: Exception) -> None:
    node.server.remove("persistentvolumes", "pv-1")
    node.server.refusals = [refusal] * 10  # type: ignore[list-item]
    assert await node.look(10) == ["pv-1"]
