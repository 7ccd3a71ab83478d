"""A real planet: `tarmac up --runtime containerd` in a process of its own, and kubectl to read its state."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tarmac.agent.cgroups.mounted import mounted
from tarmac.apps.cities.layout import pods_cgroup
from tarmac.apps.cities.removing import underlay_of
from tests.support.guestimages import guest
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

Json = dict[str, Any]
GUESTS = {f"{says}.raw": guest("ticks", says) for says in ("first", "second")}
"""Guest images that its nodes have beside those that all nodes have."""
UBUNTU_FILE = "ubuntu-22.04-server-cloudimg-amd64.img"
"""The publisher's file name of the catalogue's Ubuntu: a node with a file of that name does not fetch it."""


class Planet:
    """Running cities and their user."""

    def __init__(self, process: TarmacProcess, home: Path, registry: int = 0) -> None:
        """`registry`: the port of its registry; 0 where the program is missing."""
        self.process = process
        self.registry = registry
        self.kubectl = Kubectl(process.kubeconfig, home)

    @property
    def data_dir(self) -> Path:
        """The data directory of `up`."""
        return self.process.data_dir

    def get(self, *arguments: str) -> Json:
        """Return objects, decoded."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def apply(self, *objects: Json) -> None:
        """Apply manifests."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def wait(self, what: str, condition: str, timeout: int = 60) -> None:
        """Run `kubectl wait`; when it fails, the error has the pods and events."""
        done = self.kubectl.run("wait", f"--for={condition}", what, f"--timeout={timeout}s", timeout=timeout + 20)
        assert done.code == 0, f"{done}\n{self.kubectl.run('get', 'pods,events', '-o', 'wide')}"

    def tarmac(self, *arguments: str) -> str:
        """Return the output of a `tarmac` command; its failure fails the test."""
        command = [sys.executable, "-m", "tarmac.apps.main", *arguments, "--kubeconfig", str(self.process.kubeconfig)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def exec(self, pod: str, *command: str, container: str = "", stdin: str = "") -> str:
        """Return the output of a command in a pod; its failure fails the test."""
        flags = [*(("-c", container) if container else ()), *(("-i",) if stdin else ())]
        return self.kubectl("exec", *flags, pod, "--", *command, stdin=stdin)

    def remove(self, *names: str) -> None:
        """Delete pods and wait for their end."""
        self.kubectl.run("delete", "pod", *names, "--ignore-not-found", "--wait", timeout=60)


def machine_processes(data_dir: Path) -> dict[int, str]:
    """Return the processes of its machines, and their pods. Other planets have machines of the same names."""
    pids = mounted().inhabitants(pods_cgroup(underlay_of(data_dir)))
    named = {pid: command_of(pid).partition("guest=")[2].partition(",")[0] for pid in pids}
    return {pid: name for pid, name in named.items() if name}


def command_of(pid: int) -> str:
    """Return the arguments of a process; empty when it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""


def eventually(check: Callable[[], bool], seconds: float = 30, what: str = "it") -> None:
    """Wait for a state that no event announces."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"{what} did not come true in {seconds} s"
        time.sleep(0.2)


def down(directory: Path) -> subprocess.CompletedProcess[str]:
    """Run `tarmac down`."""
    command = [sys.executable, "-m", "tarmac.apps.main", "down", "--data-dir", str(directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180)


def pod(name: str, *containers: Json, **spec: Any) -> Json:
    """Return a plain Pod."""
    metadata = {"name": name, "labels": {"app": name}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": list(containers), "terminationGracePeriodSeconds": 1, **spec},
    }


def busybox(name: str = "main", script: str = "trap 'exit 0' TERM; while :; do sleep 0.1; done", **more: Any) -> Json:
    """Return a container with a shell in it."""
    return {
        "name": name,
        "image": "registry.local/tarmac/busybox:1",
        "command": ["sh", "-c", script],
        **more,
    }
