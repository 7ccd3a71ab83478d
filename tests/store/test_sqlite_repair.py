"""`tarmac store repair`: reports damage and losses; with --accept-loss it continues without the lost objects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tarmac.store.interface import Compacted
from tarmac.store.sqlite import SqliteStore
from tarmac.store.sqlite.repairing import examine, repair
from tests.store.objects import PODS, names, text, value


async def _made(path: Path) -> None:
    store = SqliteStore(path)
    await store.start()
    for number in range(40):
        await store.create(PODS, f"ns/{number:02}", value(f"text-{number:02}", 600))
    entry = store.get(PODS, "ns/05")
    assert entry is not None
    await store.update(PODS, "ns/05", value("newer", 600), entry.revision)
    await store.close()


def _change(path: Path, before: bytes, after: bytes) -> None:
    content = path.read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, after))


def _repair(folder: Path, *flags: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "tarmac.apps.main", "store", "repair", "--data-dir", str(folder), *flags]
    ended = subprocess.run(command, capture_output=True, text=True)
    return ended.returncode, ended.stdout, ended.stderr


async def test_it_says_what_it_would_drop_and_drops_it_when_told_to(tmp_path: Path) -> None:
    """Nothing is changed before that; the damaged files are kept."""
    path = tmp_path / "store.db"
    await _made(path)
    assert _repair(tmp_path) == (0, f"{path} is whole\n", "")
    _change(path, b"text-17", b"text-18")
    _change(path, b'"newer"', b'"newfr"')
    damaged = path.read_bytes()
    code, said, _ = _repair(tmp_path)
    assert code == 1
    assert said.splitlines()[1:] == [
        "would be dropped: core/pods ns/17 at revision 19: nothing of it is left",
        "would be dropped: core/pods ns/05 at revision 42: it goes back to revision 7",
        "would be kept: 39 objects",
    ]
    assert path.read_bytes() == damaged
    code, said, _ = _repair(tmp_path, "--accept-loss")
    assert code == 0
    assert "dropped: core/pods ns/17 at revision 19" in said
    assert (tmp_path / "store.db.damaged-1").read_bytes() == damaged
    assert _repair(tmp_path) == (0, f"{path} is whole\n", "")

    store = SqliteStore(path)
    await store.start()
    assert names(store.list(PODS).entries) == [f"ns/{number:02}" for number in range(40) if number != 17]
    entry = store.get(PODS, "ns/05")
    assert entry is not None
    assert text(entry) == "text-05"
    with pytest.raises(Compacted):
        await store.history(PODS, 42)
    assert (await store.create(PODS, "ns/new", value())).revision > 42, "a revision was given out twice"
    await store.close()


async def test_pages_that_cannot_be_read_cost_only_their_rows(tmp_path: Path) -> None:
    """The report names the revisions around them."""
    path = tmp_path / "store.db"
    await _made(path)
    content = bytearray(path.read_bytes())
    page = content.index(b"text-20") // 4096 * 4096
    content[page : page + 4096] = bytes(4096)
    path.write_bytes(content)
    findings = examine(path, lambda: "new")
    assert findings is not None
    assert 30 <= len(findings.kept) < 40
    [lost, *_] = findings.lost
    assert lost.startswith("all writes at revisions ")
    repair(path, findings, lambda: "new")
    store = SqliteStore(path)
    await store.start()
    assert store.count(PODS) == len(findings.kept)
    await store.close()


async def test_a_missing_log_costs_what_was_in_it(tmp_path: Path) -> None:
    """The loss is reported as far as the marker knows."""
    path = tmp_path / "store.db"
    await _made(path)
    older = path.read_bytes()
    store = SqliteStore(path)
    await store.start()
    await store.create(PODS, "ns/lost", value())
    await store.close()
    path.write_bytes(older)
    code, said, _ = _repair(tmp_path, "--accept-loss")
    assert code == 0
    assert "dropped: every change after revision 42; the last one was 43\nkept: 40 objects" in said


@pytest.mark.parametrize("step", ["repairing.write_complete", "repairing.take_place", "replacing.sync_directory"])
async def test_an_interrupted_repair_is_finished_by_the_next(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server starts on the files meanwhile."""
    path = tmp_path / "store.db"
    await _made(path)
    _change(path, b"text-17", b"text-18")
    findings = examine(path, lambda: "new")
    assert findings is not None
    with monkeypatch.context() as patch:
        calls = iter((False, True))

        def die(*_: object) -> None:
            if step != "replacing.sync_directory" or next(calls):
                raise KeyboardInterrupt

        patch.setattr(f"tarmac.store.sqlite.{step}", die)
        with pytest.raises(KeyboardInterrupt):
            repair(path, findings, lambda: "new")
    code, _, _ = _repair(tmp_path)
    assert code == 1
    code, said, complaint = _repair(tmp_path, "--accept-loss")
    assert code == 0, said + complaint
    store = SqliteStore(path)
    await store.start()
    assert store.count(PODS) == 39
    await store.close()


def test_unrepairable_stores_give_one_line(tmp_path: Path) -> None:
    """The error is one line."""
    assert _repair(tmp_path)[::2] == (1, f"error: there is no store at {tmp_path}/store.db\n")
    (tmp_path / "store.db").write_bytes(b"no database" * 1000)
    code, _, complaint = _repair(tmp_path, "--accept-loss")
    assert code == 1
    assert (
        complaint == f"error: nothing of {tmp_path}/store.db can be read (file is not a database): restore a backup\n"
    )
    assert _repair(tmp_path, "--store", "etcd://127.0.0.1:1")[0] == 1
