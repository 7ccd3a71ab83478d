"""Limits on cgroups of all pods and of the reserved amounts; success is an event, failures are retried."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.cgroups.v2 import V2
from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.node.enforcement import Enforcement, check_reserved_groups
from tarmac.agent.node.sizes import NodeSizes
from tarmac.base.clock import ManualClock
from tests.agent.node.settings import agent_config

CAPACITY = {"cpu": 4000, "memory": 8 << 30, "hugepages-2Mi": 4 << 20}
RESERVED = {
    "systemReserved": {"cpu": "1", "memory": "1Gi", "pid": "100"},
    "systemReservedCgroup": "/system",
    "kubeReserved": {"cpu": "500m", "memory": "512Mi"},
    "kubeReservedCgroup": "/kube",
}


class Node:
    """A tree of version 2 made of plain files, and the recorded events."""

    def __init__(self, tree: Path, **settings: Any) -> None:
        for name in (".", "kubepods", "system", "kube"):
            (tree / name).mkdir(exist_ok=True)
            (tree / name / "hugetlb.2MB.max").touch()
        self.tree = tree
        self.clock = ManualClock()
        self.events: list[tuple[str, str, str]] = []
        self.config = agent_config(tree, settings)
        sizes = NodeSizes(CAPACITY, 1000, self.config.reservations)
        groups = KubePods(V2(tree), "/", self.clock)
        self.enforcement = Enforcement(V2(tree), groups, self.config.kubelet, sizes, self._event, self.clock)

    def _event(self, type: str, reason: str, message: str) -> None:
        self.events.append((type, reason, message))

    def limits(self, group: str) -> dict[str, str]:
        found = {each.name: each.read_text() for each in (self.tree / group).iterdir() if each.is_file()}
        return {name: text for name, text in found.items() if text}


def test_all_pods_are_limited_in_everything(tmp_path: Path) -> None:
    node = Node(tmp_path, **RESERVED)
    node.enforcement.once()
    assert node.limits("kubepods") == {
        "cpu.weight": "98",
        "memory.max": str((8 << 30) - (1536 << 20)),
        "pids.max": "900",
        "hugetlb.2MB.max": str(4 << 20),
    }
    assert node.limits("system") == node.limits("kube") == {}
    assert node.events == [("Normal", "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")]


def test_reserved_groups_are_limited_to_what_is_reserved_or_only_weighed(tmp_path: Path) -> None:
    listed = ["pods", "system-reserved", "kube-reserved-compressible"]
    node = Node(tmp_path, enforceNodeAllocatable=listed, **RESERVED)
    node.enforcement.once()
    assert node.limits("system") == {"cpu.weight": "39", "memory.max": str(1 << 30), "pids.max": "100"}
    assert node.limits("kube") == {"cpu.weight": "20"}
    assert [message for _, _, message in node.events] == [
        "Updated Node Allocatable limit across pods",
        "Updated limits on system reserved cgroup /system",
        "Updated limits on kube reserved cgroup /kube",
    ]


def test_none_leaves_pods_everything(tmp_path: Path) -> None:
    node = Node(tmp_path, enforceNodeAllocatable=["none"], **RESERVED)
    node.enforcement.once()
    assert node.limits("kubepods")["memory.max"] == str(8 << 30)


async def test_a_refusal_is_told_and_tried_again_every_minute(tmp_path: Path) -> None:
    node = Node(tmp_path, **RESERVED)
    (tmp_path / "kubepods/memory.max").mkdir()  # a folder, so that writes fail
    node.enforcement.once()
    (event,) = node.events
    assert event[:2] == ("Warning", "FailedNodeAllocatableEnforcement")
    assert event[2].startswith('Failed to update Node Allocatable Limits "/kubepods": ')
    (tmp_path / "kubepods/memory.max").rmdir()
    running = asyncio.create_task(node.enforcement.run())
    counts: list[int] = []
    for seconds in (0, 59, 2, 60, 60):
        await asyncio.sleep(0)
        node.clock.advance(seconds)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        counts.append(len(node.events))
    assert counts == [1, 1, 2, 2, 2]
    assert node.events[1][1] == "NodeAllocatableEnforced"
    running.cancel()


def test_a_group_that_is_not_there_refuses_the_start(tmp_path: Path) -> None:
    settings = {**RESERVED, "systemReservedCgroup": "/gone", "enforceNodeAllocatable": ["system-reserved"]}
    config = Node(tmp_path, **settings).config
    with pytest.raises(BadConfig, match='Failed to enforce System Reserved Cgroup Limits on "/gone": '):
        check_reserved_groups(V2(tmp_path), config.kubelet, config.reservations)
