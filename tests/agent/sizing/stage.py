"""A real `tarmac agent` with a server and a runtime that only count connections."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from tests.agent.sizing.programs import Programs
from tests.support.ports import free_port

GATE = "--feature-gates=KubeletSizingProviders=true"


class Stage:
    """An agent's surroundings. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = Programs(folder)
        self.root = folder / "root"
        self.cgroup_root = f"/tarmac-sizing-{os.getpid()}"
        self.file = folder / "kubelet.json"
        self._server = socket.create_server(("127.0.0.1", 0))
        self._runtime = socket.socket(socket.AF_UNIX)
        self._runtime.bind(str(folder / "runtime.sock"))
        self._runtime.listen()
        self.settings()
        self._write_kubeconfig()

    def settings(self, **settings: Any) -> None:
        """Write the agent's own file."""
        header = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
        self.file.write_text(json.dumps({**header, "port": free_port(), **settings}))

    def flags(self) -> list[str]:
        """Return the flags that enable providers."""
        named = [
            f"--sizing-provider-config={self.programs.config}",
            f"--sizing-provider-bin-dir={self.programs.bin_dir}",
        ]
        return [GATE, *named]

    def command(self, *flags: str) -> list[str]:
        """Return the agent's command line."""
        named = {
            "kubeconfig": self.folder / "kubeconfig",
            "config": self.file,
            "node-name": "n",
            "root-dir": self.root,
            "run-dir": self.folder / "run",
            "container-runtime-endpoint": f"unix://{self.folder}/runtime.sock",
            "cgroup-root": self.cgroup_root,
        }
        return [sys.executable, "-m", "tarmac.apps.main", "agent", *(f"--{k}={v}" for k, v in named.items()), *flags]

    def run(self, *flags: str, seconds: float = 50) -> subprocess.CompletedProcess[str]:
        """Run the agent to its end."""
        return subprocess.run(self.command(*flags), capture_output=True, text=True, timeout=seconds)

    def untouched(self) -> bool:
        """Return True if nothing connected to the server and the runtime, and no cgroup was made."""
        made = [
            *Path("/sys/fs/cgroup").glob(self.cgroup_root[1:]),
            *Path("/sys/fs/cgroup").glob(f"*{self.cgroup_root}"),
        ]
        return not made and not _knocked(self._server) and not _knocked(self._runtime)

    def _write_kubeconfig(self) -> None:
        url = f"https://127.0.0.1:{self._server.getsockname()[1]}"
        contexts = [{"name": "c", "context": {"cluster": "c"}}]
        document = {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "contexts": contexts,
            "current-context": "c",
        }
        (self.folder / "kubeconfig").write_text(json.dumps(document))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        self._runtime.close()


def _knocked(listener: socket.socket) -> bool:
    listener.setblocking(False)
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True
