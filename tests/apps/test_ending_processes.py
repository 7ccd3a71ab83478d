"""Processes that `up` finds from an earlier run are gone, with their ports, before it starts its own."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time

import pytest

from tarmac.apps import processes

PORT_IN_A_THREAD = """
import ctypes, signal, socket, threading, time

listener = socket.create_server(("127.0.0.1", 0))
def hold():
    print(listener.getsockname()[1], flush=True)
    time.sleep(60)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
threading.Thread(target=hold).start()
ctypes.CDLL(None).syscall(60, 0)  # exit(2): ends the first thread, which becomes a zombie, and no other
"""


def test_a_process_whose_first_thread_is_a_zombie_is_ended_and_its_port_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "_STOP_TIMEOUT", 2.0)
    child = subprocess.Popen([sys.executable, "-c", PORT_IN_A_THREAD], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        asyncio.run(processes.end([child.pid]))
        socket.create_server(("127.0.0.1", port)).close()
    finally:
        child.kill()
        child.communicate()


def test_a_zombie_counts_as_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    try:
        begun = time.monotonic()
        asyncio.run(processes.end([child.pid]))  # not reaped: its parent is this process
        assert time.monotonic() - begun < processes._STOP_TIMEOUT
    finally:
        child.wait()
