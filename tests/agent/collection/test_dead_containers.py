"""One exited container of each name is kept; surplus containers are removed with their logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

from tarmac.agent.collection.deadcontainers import DeadContainers, surplus
from tarmac.runtimes.interface import Runtime, RuntimeSandbox
from tests.agent.stats.scene import Scene


class Stage(Scene):
    """A runtime that removes containers and sandboxes from its lists."""

    async def remove_container(self, id: str) -> None:
        self.all_containers = [each for each in self.all_containers if each.id != id]

    async def remove_sandbox(self, id: str) -> None:
        self.all_sandboxes = [each for each in self.all_sandboxes if each.id != id]


def test_the_current_one_and_the_one_before_stay(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for attempt, state in enumerate(("exited", "exited", "exited", "running")):
        scene.container("p", "c0", attempt, state, f"c0-{attempt}")
    scene.container("p", "c1", 0, "exited", "c1-0")
    assert [each.id for each in surplus(scene.all_containers)] == ["c0-1", "c0-0"]


def test_a_running_container_is_never_surplus(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for attempt in range(4):
        scene.container("p", "c0", attempt, "running", f"c0-{attempt}")
    assert surplus(scene.all_containers) == []


async def test_logs_go_with_their_containers(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    folder = tmp_path / "default_p_uid-p" / "c0"
    folder.mkdir(parents=True)
    for attempt in range(3):
        stage.container("p", "c0", attempt, "exited", f"c0-{attempt}")
        (folder / f"{attempt}.log").write_text("x")
    (folder / "0.log.20260101-000000.gz").write_text("x")
    assert await DeadContainers(cast("Runtime", stage), tmp_path, stage.clock).collect() == 1
    assert sorted(each.name for each in folder.iterdir()) == ["1.log", "2.log"]


async def test_dead_sandboxes_go_unless_they_are_the_newest_or_hold_containers(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.add("p", "c0")
    newest = stage.all_sandboxes[0]
    stage.all_sandboxes = [_dead(newest, f"s{age}", age) for age in (30, 20, 10)]
    stage.all_containers = [replace(stage.container("p", "c0", 0, "exited"), sandbox_id="s20")]
    await DeadContainers(cast("Runtime", stage), tmp_path, stage.clock).collect()
    assert sorted(each.id for each in stage.all_sandboxes) == ["s10", "s20"]


def _dead(sandbox: RuntimeSandbox, identity: str, age: float) -> RuntimeSandbox:
    return replace(sandbox, id=identity, ready=False, created_at=sandbox.created_at - age)
