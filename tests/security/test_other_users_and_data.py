"""Files of a server are for its own user, also where the data directory was made by hand and is open to all users."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tarmac.apps.host.hostlayout import Machine, setting_up
from tarmac.apps.lock import held
from tarmac.apps.processes import start
from tarmac.base.lockfiles import open_lock
from tarmac.server.security.keys.privatefiles import directory_lock
from tarmac.store.sqlite.disk import take_lock
from tests.support.ports import free_ports
from tools.cache import ROOT

OPEN_TO_OTHERS: dict[str, str] = {}
"""Paths below the data directory that other users may read, each with the reason. The table is empty."""


def open_below(folder: Path) -> set[str]:
    """Return everything below that group or other users can access."""
    found = {
        str(each.relative_to(folder))
        for each in folder.rglob("*")
        if not each.is_symlink() and stat.S_IMODE(each.stat().st_mode) & 0o077
    }
    return found - OPEN_TO_OTHERS.keys()


@pytest.mark.parametrize("command", ["server", "up"])
def test_a_fresh_data_directory_holds_nothing_that_other_users_can_read(tmp_path: Path, command: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)  # made by hand: each file has to protect itself
    (port,) = free_ports(1)
    words = [command, "--data-dir", str(data), "--listen", f"127.0.0.1:{port}"]
    words += ["--runtime=sim", "--cities=dfw", "--sim-nodes=1"] if command == "up" else []
    # The most permissive umask: a mode that is not given shows.
    program = [sys.executable, "-m", "tarmac.apps.main"]
    with subprocess.Popen([*program, *words], stdout=subprocess.PIPE, text=True, umask=0) as process:
        try:
            assert process.stdout is not None
            assert any("ready" in line for line in process.stdout)
            assert {"pki", "store.db", "kubeconfig"} <= {each.name for each in data.iterdir()}
            assert open_below(data) == set()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    assert open_below(data) == set(), "also files written at the end"


@pytest.mark.parametrize("kind", ["keys", "store", "up", "setup"])
def test_a_lock_is_private_and_one_of_an_earlier_version_becomes_so(tmp_path: Path, kind: str) -> None:
    """A user who can read a lock can hold it, and the server would not start."""
    machine = Machine(data=tmp_path)
    file = tmp_path / {"keys": ".lock", "store": "store.db.lock", "up": "up.lock", "setup": "setup.lock"}[kind]
    file.touch()
    file.chmod(0o644)
    if kind == "store":
        os.close(take_lock(tmp_path / "store.db"))
    else:
        with {"keys": directory_lock(tmp_path), "up": held(file), "setup": setting_up(machine)}[kind]:
            pass
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


LOCKED_OTHERWISE = {
    "runtimes/qemu/process.py": "the lock of a machine: made private by `launching`, opened here to hold it",
    "apps/backups/backup.py": "the folder that a backup is written to, which the administrator chooses",
}


def test_every_lock_is_opened_as_a_private_file() -> None:
    top = ROOT / "src" / "tarmac"
    locking = {str(path.relative_to(top)): text for path in top.rglob("*.py") if "flock(" in (text := path.read_text())}
    assert {name for name, text in locking.items() if "open_lock" not in text} - {"base/lockfiles.py"} == {
        *LOCKED_OTHERWISE
    }


def test_a_lock_is_held_by_one_process_only(tmp_path: Path) -> None:
    first, second = open_lock(tmp_path / "lock"), open_lock(tmp_path / "lock")
    fcntl.flock(first, fcntl.LOCK_EX)
    with pytest.raises(BlockingIOError):
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(first)
    os.close(second)


async def test_logs_of_started_programs_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        process = await start(["true"], tmp_path / "agent.log")
    finally:
        os.umask(before)
    await process.wait()
    assert stat.S_IMODE((tmp_path / "agent.log").stat().st_mode) == 0o600
