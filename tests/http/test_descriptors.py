"""A real server with few file descriptors left, and many clients that hold connections open silently."""

from __future__ import annotations

import http.client
import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.tarmac_process import TarmacProcess

FEW = 256
CROWD = 600


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TarmacProcess]:
    with TarmacProcess(tmp_path / "data", "--store", "memory://") as process:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (FEW, FEW))
        yield process


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def connection(server: TarmacProcess) -> http.client.HTTPSConnection:
    host, port = server.authority.split(":")
    return http.client.HTTPSConnection(host, int(port), context=server.client_context(), timeout=10)


def get(asking: http.client.HTTPSConnection) -> int:
    asking.request("GET", "/api/v1/namespaces")
    answer = asking.getresponse()
    answer.read()
    return answer.status


@pytest.mark.timeout(90)
def test_a_crowd_that_holds_every_descriptor_stops_nobody(server: TarmacProcess) -> None:
    """Bare connections and started requests block no client, and cost no processor time and one line of log."""
    host, port = server.authority.split(":")
    with ExitStack() as stack:
        for _ in range(CROWD):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
        before, began = processor_seconds(server.pid), time.monotonic()
        for _ in range(5):
            newcomer = connection(server)
            assert get(newcomer) == 200
            assert get(newcomer) == 200
            newcomer.close()
        elapsed = max(1.0, time.monotonic() - began)
        assert (processor_seconds(server.pid) - before) / elapsed < 0.6
        assert len(os.listdir(f"/proc/{server.pid}/fd")) <= FEW
    assert server.log.read_text().count("no room for more connections") <= 1
    assert "Too many open files" not in server.log.read_text()  # some are kept back for files
    assert "Traceback" not in server.log.read_text()
