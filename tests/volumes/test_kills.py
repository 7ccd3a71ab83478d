"""The next agent adopts or removes everything that a killed one left."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tarmac.volumes.linux.mountinfo import mounts
from tests.soak import SOAK
from tests.volumes.bench import Bench, claim, content
from tests.volumes.killed_agent import filled

pytestmark = [pytest.mark.root]
KILLS = 300 if SOAK else 15
FILES = 40
SEED = os.environ.get("TARMAC_SEED", "volumes")


class Agents:
    """Agents that work under one root until they are killed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def kill_at(self, deed: int) -> str:
        """Run an agent; return its line of output."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{deed}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@contextmanager
def agents(root: str, seed: Path) -> Generator[Agents]:
    command = [sys.executable, "-m", "tests.volumes.killed_agent", root, str(seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Agents(process)


@contextmanager
def purged(bench: Bench) -> Generator[None]:
    """Remove all mounts at the end, also after a failure."""
    try:
        yield
    finally:
        bench.medium.close()
    assert mounts(bench.root) == []


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    folder = tmp_path / "seed"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"file-{number}").write_bytes(b"x" * 20_000)
    return folder


@pytest.mark.soak(minutes=5)
@pytest.mark.timeout(60 + 3 * KILLS)
async def test_kills_leave_no_remains_and_no_incomplete_disk(tmp_path: Path, seed: Path) -> None:
    dice, root = random.Random(SEED), os.path.realpath(tmp_path / "root")
    kills, unfinished = Counter[str](), 0
    with agents(root, seed) as crowd, purged(filled(root, str(seed))):
        ended, _, deeds = crowd.kill_at(0).rpartition(" ")
        assert ended == "ended after"
        for _ in range(KILLS):
            deed = dice.randint(1, int(deeds))
            kills[crowd.kill_at(deed)] += 1
            unfinished += any(name.endswith(".new") for name in os.listdir(f"{root}/disks"))
            await _take_over(filled(root, str(seed)), f"deed {deed}, replay with TARMAC_SEED={SEED}")
    print(f"of {deeds} deeds: {dict(kills)}; {unfinished} while a disk was being made")
    assert unfinished, "no kill hit the creation of a disk"
    assert sum(count for what, count in kills.items() if what.startswith("killed")) > KILLS // 2


async def _take_over(bench: Bench, what: str) -> None:
    await bench.volumes.start()
    path = await bench.path({**claim("seeded"), "name": "seeded"}, uid="next")
    assert len([name for name in os.listdir(path) if name.startswith("file-")]) == FILES, what
    keys = await bench.path({"name": "keys", "secret": {"secretName": "keys"}}, uid="pod-0")
    assert content(f"{keys}/key") == "1", what
    await bench.volumes.sweep(set())
    for _ in range(100):
        if not any(bench.leftovers().values()):
            for name in await bench.volumes.disks():
                await bench.volumes.remove_disk(name)
            return
        await asyncio.sleep(0.05)  # a tool that outlives the agent holds its device a little longer
        await bench.volumes.sweep(set())
    pytest.fail(f"left after {what}: {bench.leftovers()}")
