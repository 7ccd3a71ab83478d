"""A fresh clone that simulates its nodes, run by an unprivileged user, leaves little on the disk."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.cache import ROOT

pytestmark = [pytest.mark.root, pytest.mark.soak(minutes=2, only=True), pytest.mark.timeout(900)]
MAX_BYTES = 350 << 20  # the clone with its history, the environment, caches, and the data
USER = 65534  # an unprivileged user
_TIMEOUT = 600.0


@pytest.fixture
def home() -> Generator[Path]:
    """A home outside pytest's directories, which only root can enter."""
    with tempfile.TemporaryDirectory(prefix="tarmac-newcomer-") as name:
        os.chown(name, USER, USER)
        yield Path(name)


def test_simulated_cities_take_at_most_350_mb(home: Path) -> None:
    subprocess.run(["git", "clone", "-q", str(ROOT), str(home / "tarmac")], check=True)
    subprocess.run(["chown", "-R", f"{USER}:{USER}", str(home)], check=True)
    with running(home / "tarmac", home) as (output, seconds):
        assert "tarmac ready" in output
        assert "tarmac dashboard" in output
    # By inode: the environment has hard links to files of uv's cache.
    files = {found.st_ino: found.st_blocks * 512 for each in home.rglob("*") for found in [each.lstat()]}
    size = sum(files.values())
    print(f"\na newcomer's disk: {size >> 20} MB (at most {MAX_BYTES >> 20}), ready after {seconds:.1f} s")
    assert size <= MAX_BYTES


@contextmanager
def running(clone: Path, home: Path) -> Generator[tuple[str, float]]:
    """`make run` in the clone until it is ready; yields its output, and the seconds that it took."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["make", "run", f"ARGS=--runtime sim --listen 127.0.0.1:{port}"]
    log, began = home / "log", time.monotonic()
    with log.open("w") as file:
        process = subprocess.Popen(
            command, cwd=clone, env=_environment(home), stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            user=USER, group=USER, extra_groups=[],
        )  # fmt: skip
    try:
        until = time.monotonic() + _TIMEOUT
        while "tarmac dashboard" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        yield log.read_text(), time.monotonic() - began
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def _environment(home: Path) -> dict[str, str]:
    """Return the test's environment with a home of its own, without folders and caches of the test's user."""
    ours = ("GOPATH", "GOMODCACHE", "GOCACHE", "XDG_CACHE_HOME", "VIRTUAL_ENV", "KUBECONFIG")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "HOME": str(home), "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
