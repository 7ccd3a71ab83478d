"""A store of the format before checksums and markers gets both at its first start, kill -9 or not."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tarmac.store.interface import Damaged
from tarmac.store.sqlite import SqliteStore
from tarmac.store.sqlite.format import FORMAT
from tests.store.objects import PODS, names, told, value

_FORMAT_1 = """
CREATE TABLE log (
    revision INTEGER PRIMARY KEY, at INTEGER NOT NULL, bucket TEXT NOT NULL, name TEXT NOT NULL,
    created INTEGER NOT NULL, previous INTEGER NOT NULL, deleted INTEGER NOT NULL, value BLOB
) STRICT;
CREATE TABLE floor (revision INTEGER NOT NULL) STRICT;
INSERT INTO floor VALUES (3);
PRAGMA application_id = 1413567053;
PRAGMA user_version = 1;
"""
_ROWS = [
    (2, 0, PODS, "ns/a", 2, 0, 0, value("a")),
    (3, 0, PODS, "ns/b", 3, 0, 0, value("b")),
    (4, 0, PODS, "ns/c", 4, 0, 0, value("c")),
    (5, 0, PODS, "ns/a", 2, 2, 0, value("a2")),
    (6, 0, PODS, "ns/b", 3, 3, 1, None),
]
_KILLED_WHILE = {
    "the marker was made": "import tarmac.store.sqlite.opening as m; m._bring_up = lambda *_: die()",
    "rows got their sums": "import tarmac.store.sqlite.format as m; m.row_sum = lambda *_: die()",
    "the tables were changed": "import tarmac.store.sqlite.format as m; m._finish = lambda *_: die()",
    "it was committed": "from tarmac.store.sqlite.file import StoreFile as m; m.settle = lambda *_: die()",
    "it was checkpointed": "from tarmac.store.sqlite.marker import Marker as m; s = m.settle; "
    "m.settle = lambda self, revision: die() if revision else s(self, 0)",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of format 1, with a log that was not checkpointed."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("PRAGMA journal_mode = WAL;" + _FORMAT_1)
        db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?)", _ROWS)
        db.commit()
    return path


def _start_and_be_killed(path: Path, moment: str) -> None:
    program = "import asyncio, os, pathlib, signal, sys\ndef die(): os.kill(os.getpid(), signal.SIGKILL)\n"
    program += f"{_KILLED_WHILE[moment]}\nfrom tarmac.store.sqlite import SqliteStore\n"
    program += "asyncio.run(SqliteStore(pathlib.Path(sys.argv[1])).start())"
    ended = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True)
    assert ended.returncode == -9, ended.stderr


async def _check(path: Path) -> None:
    store = SqliteStore(path)
    await store.start()
    assert names(store.list(PODS).entries) == ["ns/a", "ns/c"]
    history = await store.history(PODS, 3)
    assert told(history) == [("ADDED", "ns/c", "c"), ("MODIFIED", "ns/a", "a2"), ("DELETED", "ns/b", "b")]
    await store.create(PODS, "ns/d", value("d"))
    await store.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    store = SqliteStore(path)
    await store.start()
    assert names(store.list(PODS).entries) == ["ns/a", "ns/c", "ns/d"]
    await store.close()


async def test_a_store_without_sums_gets_them(path: Path) -> None:
    """Objects and history are as before, and damage is found from then on."""
    await _check(path)
    content = path.read_bytes()
    assert b'"a2"' in content
    path.write_bytes(content.replace(b'"a2"', b'"a3"'))
    with pytest.raises(Damaged, match="core/pods ns/a at revision 5: checksum mismatch"):
        await SqliteStore(path).start()


@pytest.mark.parametrize("moment", _KILLED_WHILE)
async def test_a_kill_in_the_middle_loses_nothing(path: Path, moment: str) -> None:
    """The next start upgrades it, or finds it upgraded."""
    _start_and_be_killed(path, moment)
    await _check(path)


@pytest.mark.parametrize("moment", ["the marker was made", "it was committed", "it was checkpointed"])
async def test_a_new_store_may_be_killed_while_it_is_made(tmp_path: Path, moment: str) -> None:
    """A killed store starts empty, and works."""
    path = tmp_path / "store.db"
    _start_and_be_killed(path, moment)
    store = SqliteStore(path)
    await store.start()
    assert store.revision == 1
    await store.create(PODS, "ns/a", value("a"))
    await store.close()
