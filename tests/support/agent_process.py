"""A real `tarmac agent` in a process of its own, as users run it, on the test's containerd."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Self

from tarmac.base.clock import SystemClock
from tarmac.server.security.certificates.pki import Pki, write_kubeconfig
from tests.support.containerd import ContainerdNode
from tests.support.ports import free_port
from tests.support.readable import readable
from tests.support.tarmac_process import TarmacProcess

READY = re.compile(r"^tarmac agent ready (\S+)$")
START_SECONDS = 30.0


class AgentProcess:
    """One node. Use as a context manager; `kill()` is kill -9, `stop()` is SIGTERM, `start()` brings it back."""

    def __init__(
        self, folder: Path, name: str, containerd: ContainerdNode, kubeconfig: Path, *flags: str, **settings: Any
    ) -> None:
        self.python = Path(sys.executable)  # a test of another version replaces this before the start
        self.name = name
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.cgroup_root = f"{containerd.cgroup_root}/{name}"
        self.logs = folder / "logs"
        self.log = folder.parent / f"{name}.log"
        self.config = folder / "kubelet.json"
        # Short, since it contains sockets, and not the machine's default, which belongs to another agent.
        self.devices = Path(tempfile.gettempdir()) / f"tarmac-d-{zlib.crc32(str(folder).encode()):08x}"
        folder.mkdir(parents=True, exist_ok=True)
        header = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
        self.config.write_text(json.dumps({**header, "port": free_port(), **settings}))
        self._containerd = containerd
        self._flags = flags
        self._process: subprocess.Popen[str] | None = None

    @staticmethod
    def for_server(
        folder: Path, name: str, containerd: ContainerdNode, server: TarmacProcess, *flags: str, **settings: Any
    ) -> AgentProcess:
        """A node of our own server, known to it by a certificate."""
        folder.mkdir(parents=True, exist_ok=True)
        pki = Pki(server.data_dir / "pki", SystemClock())
        kubeconfig = folder / "kubeconfig"
        write_kubeconfig(kubeconfig, server.url, pki.ca_file.read_bytes(), pki.node(name), name)
        return AgentProcess(folder, name, containerd, kubeconfig, *flags, **settings)

    @property
    def pid(self) -> int:
        """The process id of the running agent."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def stdout(self) -> IO[str] | None:
        """Return the output of the running agent."""
        return self._process.stdout if self._process is not None else None

    def command(self) -> list[str]:
        """Return the command line."""
        flags = {
            "kubeconfig": self.kubeconfig,
            "config": self.config,
            "node-name": self.name,
            "root-dir": self.folder / "root",
            "run-dir": self.folder / "run",
            "pod-logs-dir": self.logs,
            "container-runtime-endpoint": self._containerd.endpoint,
            "cgroup-root": self.cgroup_root,
            "network": "cni",
            "device-plugin-dir": self.devices,
        }
        program = [str(self.python), "-m", "tarmac.apps.main", "agent"]
        return [*program, *(f"--{name}={value}" for name, value in flags.items()), *self._flags]

    def start(self) -> Self:
        """Start and wait until it is registered."""
        return self.launch().await_ready()

    def launch(self) -> Self:
        """Start without waiting."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=log, text=True)
        return self

    def await_ready(self, seconds: float = START_SECONDS) -> Self:
        """Wait until it is registered."""
        assert self._process is not None
        assert self._process.stdout is not None
        ready = readable(self._process.stdout, seconds)
        line = self._process.stdout.readline().rstrip("\n") if ready else ""
        assert READY.match(line), f"no ready line but {line!r}; log:\n{self.log.read_text()[-4000:]}"
        return self

    def kill(self) -> None:
        """kill -9 and reap."""
        self._end(signal.SIGKILL)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send SIGTERM, wait and return the exit code."""
        return self._end(number)

    def usage(self) -> tuple[float, float]:
        """Return the processor seconds so far and the resident megabytes."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def _end(self, number: int) -> int:
        process = self._process
        assert process is not None
        self._process = None
        if process.poll() is None:
            process.send_signal(number)
        try:
            code = process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.stop()
        self.unmount()
        shutil.rmtree(self.devices, ignore_errors=True)

    @property
    def pods(self) -> list[str]:
        """Return the uids of pods of which the agent keeps state."""
        folder = self.folder / "root" / "pods"
        return [each.name for each in folder.iterdir()] if folder.exists() else []

    def unmount(self) -> None:
        """Remove the mounts that an agent leaves for its successor, so that the folder can be removed."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        points = [line.split(" ")[4] for line in lines]
        for point in sorted((each for each in points if each.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)


def until(true: Callable[[], object], seconds: float = 30.0, pause: float = 0.05) -> None:
    """Wait for a condition; fail when it does not hold in time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "the condition did not hold in time"
        time.sleep(pause)
