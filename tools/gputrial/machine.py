"""This machine during the trial: the package, `tarmac up`, kubectl, and processes to kill."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

DATA: Final = Path("/var/lib/tarmac-gpu-trial")
RUNSC: Final = Path("/opt/tarmac/parts/bin/runsc")
LOGS: Final = (DATA / "up.log", DATA / "cities/dfw/agent.log", DATA / "cities/dfw/containerd.log")
_PORT: Final = 16443
_READY_TIMEOUT: Final = 120.0


class TrialFailed(Exception):
    """A required step failed."""


class Machine:
    """One machine. `kubectl` is a path; all waits end once `seconds` have passed."""

    def __init__(self, kubectl: str, seconds: float) -> None:
        self.kubectl_path = kubectl
        self._deadline = time.monotonic() + seconds
        self.up: subprocess.Popen[bytes] | None = None
        self.environment = {**os.environ, "KUBECONFIG": str(DATA / "kubeconfig"), "TERM": "dumb"}
        for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH"):
            self.environment.pop(name, None)

    def install(self, package: Path) -> str:
        """Install the package; return the output of dpkg if dependencies are missing. Raises TrialFailed."""
        done = run("dpkg", "-i", str(package))
        if done.returncode == 0:
            return ""
        again = run("dpkg", "--force-depends", "-i", str(package))
        if again.returncode != 0:
            raise TrialFailed(f"{package.name} cannot be installed: {again.stderr}")
        lines = (line.strip() for line in done.stderr.splitlines() if " depends on " in line)
        return " ".join(line.removesuffix("; however:") for line in lines)

    def start(self) -> float:
        """Run `tarmac up` with one real city; return the seconds until it is ready. Raises TrialFailed."""
        self.stop()  # leftovers of an earlier trial would be measured, too
        began = time.monotonic()
        DATA.mkdir(mode=0o700, parents=True, exist_ok=True)
        words = [
            "tarmac",
            "up",
            f"--data-dir={DATA}",
            "--runtime=containerd",
            "--cities=DFW",
            f"--listen=127.0.0.1:{_PORT}",
        ]
        with open(DATA / "up.log", "ab") as log:
            self.up = subprocess.Popen(words, stdout=log, stderr=log, env=self.environment, start_new_session=True)
        self.until(lambda: self.field("node", "dfw-0", self.READY) == "True", _READY_TIMEOUT, "the node is Ready")
        return time.monotonic() - began

    READY = '{.status.conditions[?(@.type=="Ready")].status}'

    def stop(self) -> None:
        """Remove everything."""
        run("tarmac", "down", f"--data-dir={DATA}", environment=self.environment)

    def kubectl(self, *words: str, text: str | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run kubectl."""
        allowed = min(timeout, max(self._left, 5.0))
        return run(self.kubectl_path, *words, text=text, environment=self.environment, timeout=allowed)

    def tarmac(self, *words: str) -> str:
        """Return the output of a verb, both streams."""
        done = run("tarmac", *words, environment=self.environment)
        return done.stdout + done.stderr

    def apply(self, body: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """Apply one object."""
        return self.kubectl("apply", "-f", "-", text=json.dumps(body))

    def field(self, kind: str, name: str, path: str) -> str:
        """Return a field of an object; empty if there is none."""
        return self.kubectl("get", kind, name, "-o", f"jsonpath={path}").stdout.strip()

    def allocatable(self) -> dict[str, str]:
        """Return the node's allocatable amounts; empty while they cannot be read."""
        output = self.kubectl("get", "node", "dfw-0", "-o", "json").stdout
        return json.loads(output or "{}").get("status", {}).get("allocatable", {})

    def instance(self, workload: str) -> str:
        """Return the name of a Workload's only instance; empty before there is one."""
        selector = f"compute.datumapis.com/workload-name={workload}"
        return self.kubectl(
            "get", "instances", "-l", selector, "-o", "jsonpath={.items[0].metadata.name}"
        ).stdout.strip()

    def inside(self, pod: str, *words: str, timeout: float = 300) -> str:
        """Return the output of a command in a pod; empty if it failed."""
        done = self.kubectl("exec", pod, "--", *words, timeout=timeout)
        return done.stdout if done.returncode == 0 else ""

    def gpu_answers(self, pod: str) -> bool:
        """Return True if nvidia-smi in a pod lists a GPU."""
        return bool(pod) and "GPU 0" in self.inside(pod, "nvidia-smi", "-L", timeout=20)

    def until(self, true: Callable[[], object], seconds: float, what: str) -> float:
        """Wait; return the seconds. Raises TrialFailed with the ends of the logs."""
        began, allowed = time.monotonic(), min(seconds, self._left)
        while not true():
            if time.monotonic() - began > allowed:
                raise TrialFailed(f"not within {allowed:.0f} s: {what}\n{self.last_words()}")
            time.sleep(0.05)
        return time.monotonic() - began

    @property
    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def last_words(self) -> str:
        """Return the ends of the logs, and of the state of all pods."""
        ends = [
            f"== {log}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-25:])
            for log in LOGS
            if log.exists()
        ]
        return "\n".join((*ends, self.kubectl("get", "pods,instances,events", "-A").stdout[-6000:]))

    def pids(self, *words: str) -> list[int]:
        """Return the processes with all these words in their command lines."""
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:
                    continue
                if all(word in line for word in words):
                    found.append(int(entry.name))
        return found

    def kill(self, *words: str) -> int:
        """Kill -9 the processes with these words; return their number."""
        pids = self.pids(*words)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return len(pids)

    def resident(self, *words: str) -> float:
        """Return the resident megabytes of the first process with these words; 0 without one."""
        for pid in self.pids(*words)[:1]:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            return next((int(each.split()[1]) / 1000 for each in lines if each.startswith("VmRSS:")), 0.0)
        return 0.0


def run(
    *words: str, text: str | None = None, environment: dict[str, str] | None = None, timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    try:
        return subprocess.run(
            words, input=text, capture_output=True, text=True, env=environment, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(words, 124, str(late.stdout or ""), f"no end within {timeout:.0f} s")


def missing_here(tools: Sequence[str]) -> list[str]:
    """Return the reasons why the trial cannot run on this machine."""
    found = [] if os.geteuid() == 0 else ["it needs root"]
    if not Path("/proc/driver/nvidia/version").exists():
        found.append("NVIDIA's driver is not loaded")
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        found.append("cgroup v2 is not mounted at /sys/fs/cgroup")
    try:
        ctypes.CDLL("libnftables.so.1")  # the program alone is not enough: the agent loads the library
    except OSError as error:
        found.append(f"nftables is incomplete: {error}")
    return found + [f"{each} is not on the PATH" for each in tools if shutil.which(each) is None]
