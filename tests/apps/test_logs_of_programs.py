"""The log of a program that `up` starts is bounded while the program runs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tarmac.apps.logfile import MAX_SIZE
from tarmac.apps.processes import bound_log, ended, start

LINES = "i=0; while [ $i -lt 40 ]; do head -c 1000000 /dev/zero; i=$((i+1)); sleep 0.02; done; echo the end"


async def test_a_program_that_says_much_fills_no_disk(tmp_path: Path) -> None:
    log = tmp_path / "program.log"
    process = await start(["sh", "-c", LINES], log)
    assert await ended(process, log, interval=0.01) == 0
    older = log.with_name("program.log.1")
    assert log.stat().st_size + older.stat().st_size < 40_000_000
    assert log.read_bytes().endswith(b"the end\n")
    assert {stat.S_IMODE(each.stat().st_mode) for each in (log, older)} == {0o600}


def test_a_log_is_kept_until_it_is_too_large(tmp_path: Path) -> None:
    log, older = tmp_path / "x.log", tmp_path / "x.log.1"
    log.write_bytes(b"a" * MAX_SIZE)
    bound_log(log)
    assert (log.stat().st_size, older.exists()) == (MAX_SIZE, False)
    with log.open("ab", buffering=0) as program:  # it keeps its log open
        program.write(b"b")
        bound_log(log)
        program.write(b"c")
    assert (log.read_bytes(), older.stat().st_size) == (b"c", MAX_SIZE + 1)


def test_a_link_in_place_of_the_older_file_is_replaced(tmp_path: Path) -> None:
    log, other = tmp_path / "x.log", tmp_path / "other"
    log.write_bytes(b"aa")
    other.write_bytes(b"kept")
    os.symlink(other, tmp_path / "x.log.1")
    bound_log(log, most=1)
    assert (other.read_bytes(), (tmp_path / "x.log.1").is_symlink()) == (b"kept", False)


def test_a_log_that_is_gone_is_no_fault(tmp_path: Path) -> None:
    bound_log(tmp_path / "none.log")
