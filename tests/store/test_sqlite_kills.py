"""kill -9 of a writing process: its acknowledged writes are there, complete, and in a history without gaps.

`TARMAC_STORE_KILLS` sets how often (default 20; the soak run uses more).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.conftest import SqlitePlace
from tests.store.objects import PODS, text

_KILLS = int(os.environ.get("TARMAC_STORE_KILLS", "20"))


def _write_and_be_killed(path: Path, dice: random.Random) -> list[tuple[str, str, int, str]]:
    """Kill a writer in the middle of its work; return its acknowledged writes."""
    command = [sys.executable, "-m", "tests.store.writing_process", str(path), str(dice.choice((1, 4, 16)))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as output:
        lines = [output.readline() for _ in range(dice.randrange(1, 200))]
        process.kill()
        lines += output.readlines()
    process.wait()
    acknowledged = [line.decode().split() for line in lines if line.endswith(b"\n")]
    return [(change, name, int(revision), text) for change, name, revision, text in acknowledged]


@pytest.mark.timeout(60 + 3 * _KILLS)
async def test_nothing_acknowledged_is_lost(sqlite_place: SqlitePlace) -> None:
    """After each kill, and with all kills on one file."""
    dice = random.Random(_KILLS)
    seen, total = 1, 0
    for _ in range(_KILLS):
        acknowledged = _write_and_be_killed(sqlite_place.path, dice)
        store = await sqlite_place.open()
        history = list(await store.history(PODS, seen))
        assert [event.entry.revision for event in history] == list(range(seen + 1, store.revision + 1))
        told = {e.entry.revision: (e.type, e.entry.name, e.entry.revision, text(e.entry)) for e in history}
        assert [told.get(revision) for _, _, revision, _ in acknowledged] == acknowledged
        last = {event.entry.name: event for event in history}
        for name, event in last.items():
            found = store.get(PODS, name)
            assert (found.raw if found is not None else None) == (event.entry.raw if event.type != "DELETED" else None)
        seen, total = store.revision, total + len(acknowledged)
        await sqlite_place.close(store)
    assert total > _KILLS * 20, "the writers hardly wrote"
