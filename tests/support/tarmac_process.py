"""A real `tarmac server` in a process of its own, as users run it; restartable on the same address and data."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

READY = re.compile(r"^tarmac ready (https://\S+) kubeconfig=(\S+)$")


class TarmacProcess:
    """One server. Use as a context manager; `kill()` is kill -9, `start()` brings it back on the same port."""

    def __init__(
        self,
        data_dir: Path,
        *flags: str,
        command: str = "server",
        program: tuple[str, ...] = ("tarmac.apps.main",),  # module, and arguments before the command
        python: Path | None = None,  # by default this version's
    ) -> None:
        self.python = python or Path(sys.executable)
        self.data_dir = data_dir
        self.flags = flags
        self.command = command
        self.program = program
        self.url = ""
        self.kubeconfig = data_dir / "kubeconfig"
        self.log = data_dir.parent / f"{data_dir.name}.log"
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def authority(self) -> str:
        """HOST:PORT."""
        return self.url.removeprefix("https://")

    def start(self) -> Self:
        """Start and wait for the ready line."""
        listen = self.authority or "127.0.0.1:0"
        command = [str(self.python), "-m", *self.program, self.command]
        command += ["--data-dir", str(self.data_dir), "--listen", listen, *self.flags]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline().rstrip("\n")
        ready = READY.match(line)
        assert ready, f"no ready line but {line!r}; log:\n{self.log.read_text()[-4000:]}"
        self.url = ready[1]
        self.kubeconfig = Path(ready[2])
        return self

    def kill(self) -> None:
        """kill -9 and reap."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._reap()

    def wait(self, timeout: float) -> int:
        """Wait for the exit code of a server that ends by itself."""
        assert self._process is not None
        self._process.wait(timeout)
        return self._reap()

    def stop(self, timeout: float = 15) -> int:
        """SIGTERM, wait, return the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
        return self._reap()

    def _reap(self) -> int:
        assert self._process is not None
        code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None
        return code

    def running(self) -> bool:
        """Return whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def client_context(self) -> ssl.SSLContext:
        """TLS as the administrator of the kubeconfig."""
        context = ssl.create_default_context(cafile=str(self.data_dir / "pki" / "ca.crt"))
        context.load_cert_chain(*self.admin_credentials())
        return context

    def admin_credentials(self) -> tuple[str, str]:
        """Certificate and key files of the administrator, taken out of the kubeconfig."""
        import base64

        import yaml

        user = yaml.safe_load(self.kubeconfig.read_text())["users"][0]["user"]
        paths: list[str] = []
        for field in ("client-certificate-data", "client-key-data"):
            path = self.data_dir / f"test-{field}.pem"
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(base64.b64decode(user[field]))
            paths.append(str(path))
        return paths[0], paths[1]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.running():
            self.kill()
        elif self._process is not None:
            self._reap()


def temporary_server(*flags: str) -> TarmacProcess:
    """A server on a fresh data directory in the system's temporary folder (removed by the caller's fixture)."""
    return TarmacProcess(Path(tempfile.mkdtemp(prefix="tarmac-")) / "data", *flags)
