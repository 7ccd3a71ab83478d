"""An image's files can be shown as a folder, and nothing stays mounted afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.agent.node.imageroot import image_root
from tarmac.runtimes.cri.criruntime import CriRuntime
from tarmac.volumes.interface import SourceUnavailable
from tests.support.access import no_registry
from tests.support.containerd import BUSYBOX, ContainerdNode

POD = {"metadata": {"name": "viewer", "namespace": "default", "uid": "u"}, "spec": {}}
pytestmark = [pytest.mark.root]


def mounted(folder: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {folder}" in line]


async def test_the_files_of_an_image(containerd_node: ContainerdNode, tmp_path: Path) -> None:
    runtime = CriRuntime(containerd_node.endpoint)
    socket, ctr = containerd_node.endpoint.removeprefix("unix://"), str(containerd_node.settings.parts.ctr)
    views = image_root(runtime, no_registry(), socket, ctr, tmp_path / "views")
    try:
        for _ in range(2):
            async with views(BUSYBOX, POD) as root:
                assert (Path(root) / "bin/busybox").is_file()
                assert len(mounted(tmp_path)) == 1
            assert mounted(tmp_path) == []
    finally:
        await runtime.close()


async def test_a_view_that_a_killed_agent_left_is_taken_away_first(
    containerd_node: ContainerdNode, tmp_path: Path
) -> None:
    runtime = CriRuntime(containerd_node.endpoint)
    socket, ctr = containerd_node.endpoint.removeprefix("unix://"), str(containerd_node.settings.parts.ctr)
    try:
        left = image_root(runtime, no_registry(), socket, ctr, tmp_path / "views")(BUSYBOX, POD)
        await left.__aenter__()
        async with image_root(runtime, no_registry(), socket, ctr, tmp_path / "views")(BUSYBOX, POD) as root:
            assert (Path(root) / "bin/busybox").is_file()
        assert mounted(tmp_path) == []
        await left.__aexit__(None, None, None)
    finally:
        await runtime.close()


async def test_an_image_that_cannot_be_had(containerd_node: ContainerdNode, tmp_path: Path) -> None:
    runtime = CriRuntime(containerd_node.endpoint)
    views = image_root(runtime, no_registry(), containerd_node.endpoint.removeprefix("unix://"), "ctr", tmp_path)
    try:
        with pytest.raises(SourceUnavailable, match="nowhere"):
            async with views("nowhere.invalid/image:1", POD):
                pass
    finally:
        await runtime.close()
