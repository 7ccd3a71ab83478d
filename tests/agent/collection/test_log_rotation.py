"""Log rotation keeps logs within their bounds and loses no line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import cast

import pytest

from tarmac.agent.collection.logs import LogRotation
from tarmac.agent.config.configreader import API_VERSION, KIND, decode
from tarmac.runtimes.interface import Runtime, RuntimeUnreachable
from tests.agent.stats.scene import Scene


class Stage(Scene):
    """A container that writes, and a runtime that reopens logs."""

    def __init__(self, logs: Path) -> None:
        super().__init__(logs)
        self.folder = logs / "default_p_uid-p" / "c0"
        self.folder.mkdir(parents=True)
        self.log = self.folder / "0.log"
        self.deaf = False
        self.container("p", "c0")
        kubelet = decode(
            {"apiVersion": API_VERSION, "kind": KIND, "containerLogMaxSize": "1Ki", "containerLogMaxFiles": 3}
        )
        self.rotation = LogRotation(cast("Runtime", self), logs, kubelet, self.clock)

    async def reopen_log(self, id: str) -> None:
        if self.deaf:
            raise RuntimeUnreachable("away")
        assert id == "p-c0"
        self.log.touch()

    def write(self, text: str, size: int = 2000) -> None:
        self.log.write_text(text * (size // len(text)))

    def names(self) -> list[str]:
        return sorted(each.name for each in self.folder.iterdir())


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_a_small_log_is_left_alone(stage: Stage) -> None:
    stage.write("a", 1024)
    await stage.rotation.rotate()
    assert stage.names() == ["0.log"]


async def test_a_large_one_is_set_aside_and_a_new_one_opened(stage: Stage) -> None:
    stage.write("a")
    await stage.rotation.rotate()
    assert stage.names() == ["0.log", "0.log.20270115-080000"]
    assert stage.log.stat().st_size == 0


async def test_older_ones_are_compressed_and_the_oldest_removed(stage: Stage) -> None:
    for text in "abcd":
        stage.write(text)
        await stage.rotation.rotate()
        stage.clock.advance(60)
    assert stage.names() == ["0.log", "0.log.20270115-080200.gz", "0.log.20270115-080300"]
    assert gzip.decompress((stage.folder / "0.log.20270115-080200.gz").read_bytes()) == b"c" * 2000


async def test_when_the_runtime_does_not_open_a_new_one_the_name_is_given_back(stage: Stage) -> None:
    stage.write("a")
    stage.deaf = True
    await stage.rotation.rotate()
    assert stage.names() == ["0.log"]
    assert stage.log.stat().st_size == 2000


async def test_logs_of_containers_that_ended_are_left_alone(stage: Stage) -> None:
    stage.all_containers.clear()
    stage.container("p", "c0", state="exited")
    stage.write("a")
    await stage.rotation.rotate()
    assert stage.names() == ["0.log"]
