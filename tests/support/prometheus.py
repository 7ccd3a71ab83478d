"""A real Prometheus on loopback, which scrapes metrics of the test.

The binary is `$TARMAC_PROMETHEUS`, else Debian's from the cache (`python -m tools.fetch_prometheus`).
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.ports import free_ports
from tools.debs import found
from tools.fetch_prometheus import PROMETHEUS

_START_SECONDS = 20.0
_CONFIG = """\
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
- job_name: load
  static_configs:
  - targets: ['127.0.0.1:{port}']
"""


class Exporter:
    """Serves metrics as text, as a tiny service would."""

    def __init__(self, exposed: Callable[[], str]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = exposed().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(ConnectionError):  # a scrape that took too long
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def find_prometheus() -> Path:
    """The binary, or a loud skip."""
    named = os.environ.get("TARMAC_PROMETHEUS")
    path = Path(named) if named else found(*PROMETHEUS)
    if path is None:
        pytest.skip("NOT RUN: no Prometheus; python -m tools.fetch_prometheus fetches one")
    return path


@contextmanager
def running_prometheus(folder: Path, exposed: Callable[[], str]) -> Generator[str]:
    """Yield its URL. `exposed` returns the text that it scrapes, several times a second."""
    exporter, (port,) = Exporter(exposed), free_ports(1)
    config, log = folder / "prometheus.yml", folder / "prometheus.log"
    config.write_text(_CONFIG.format(port=exporter.port))
    url = f"http://127.0.0.1:{port}"
    command = [
        str(find_prometheus()), f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    ]  # fmt: skip
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
    try:
        _wait(process, url, log)
        yield url
    finally:
        process.terminate()
        process.wait(10)
        exporter.close()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"Prometheus did not become ready; its last lines:\n{log.read_text()[-2000:]}")
