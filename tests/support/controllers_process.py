"""`tarmac controllers` in a process of its own, against a server that runs already."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

READY = "tarmac controllers ready "


@contextmanager
def running_controllers(kubeconfig: Path, log: Path, *flags: str) -> Generator[subprocess.Popen[str]]:
    """Start, wait for the ready line, end again. Every error contains the log."""
    command = [sys.executable, "-m", "tarmac.apps.main", "controllers", "--kubeconfig", str(kubeconfig), *flags]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith(READY), f"no ready line but {line!r}; log:\n{log.read_text()[-4000:]}"
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
