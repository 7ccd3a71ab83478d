"""The servers under test: Tarmac as users run it, a null handler on the same HTTP and TLS layer, the real server."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

from benchmarks.processes import cpu_seconds
from tests.support.peer import running_peer
from tests.support.tarmac_process import TarmacProcess


@dataclass(frozen=True)
class Subject:
    """One running server and its access as an administrator."""

    name: str
    url: str
    context: ssl.SSLContext
    pids: tuple[int, ...]
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def host(self) -> str:
        """The host of the URL."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port of the URL."""
        return urlsplit(self.url).port or 443


@contextmanager
def tarmac(directory: Path, data: str = "data") -> Generator[Subject]:
    """`tarmac server` with its defaults: SQLite, TLS, RBAC, audit."""
    with TarmacProcess(directory / data) as process:
        yield Subject("tarmac", process.url, process.client_context(), (process.pid,))


@contextmanager
def null_handler(directory: Path) -> Generator[Subject]:
    """A constant response from the same HTTP and TLS layer, with the certificates of a Tarmac that ran in
    `directory`.
    """
    command = [sys.executable, "-m", "benchmarks.null_server", str(directory / "data" / "pki")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        context = TarmacProcess(directory / "data").client_context()
        try:
            yield Subject("null handler", f"https://127.0.0.1:{port}", context, (process.pid,))
        finally:
            process.kill()


@contextmanager
def kubernetes() -> Generator[Subject]:
    """The real kube-apiserver with its etcd; CPU and memory count both."""
    with running_peer(durable=True) as peer:
        context = ssl.create_default_context(cadata=peer.ca)
        certificate, key = peer.directory / "bench.crt", peer.directory / "bench.key"
        certificate.write_text(peer.certificate)
        key.write_text(peer.key)
        context.load_cert_chain(certificate, key)
        yield Subject("kube-apiserver", peer.url, context, tuple(peer.pids()))


def start_seconds(data: Path) -> tuple[float, float]:
    """Return the time from exec to the ready line, on existing data: by the clock, and of CPU."""
    process = TarmacProcess(data)
    begin = perf_counter()
    process.start()
    seconds, used = perf_counter() - begin, cpu_seconds([process.pid])
    process.stop()
    return seconds, used
