"""Logs and cgroups of removed pods are swept after a delay."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.collection.orphans import OrphanCollector
from tarmac.runtimes.interface import Runtime
from tests.agent.stats.scene import Scene, pod


class Groups:
    """Cgroups by uid."""

    def __init__(self, *uids: str) -> None:
        self.present = set(uids)

    def uids(self) -> set[str]:
        return set(self.present)

    async def sweep(self, live: set[str]) -> list[str]:
        gone = sorted(self.present - live)
        self.present &= live
        return gone


def logs_of(folder: Path, *names: str) -> None:
    for name in names:
        (folder / f"default_{name}_uid-{name}" / "c0").mkdir(parents=True)


async def test_orphans_are_removed_in_the_second_sweep(tmp_path: Path) -> None:
    scene, groups = Scene(tmp_path), Groups("uid-bound", "uid-running", "uid-gone")
    scene.add("running")
    logs_of(tmp_path, "bound", "running", "gone")
    bound: list[dict[str, Any]] = [pod("bound")]
    leftovers = OrphanCollector(cast("Runtime", scene), cast("KubePods", groups), tmp_path, lambda: bound, scene.clock)
    await leftovers.sweep()
    assert "uid-gone" in groups.present
    await leftovers.sweep()
    assert groups.present == {"uid-bound", "uid-running"}
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "default_bound_uid-bound",
        "default_running_uid-running",
    ]


async def test_foreign_logs_and_cgroups_are_left_alone(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    (tmp_path / "something-else").mkdir()
    leftovers = OrphanCollector(cast("Runtime", scene), cast("KubePods", Groups()), tmp_path, list, scene.clock)
    for _ in range(3):
        await leftovers.sweep()
    assert (tmp_path / "something-else").exists()
