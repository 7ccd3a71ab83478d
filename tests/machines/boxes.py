"""Machines made of namespaces: network, mounts, processes and a name of their own, with private folders.

Files that a machine writes below /etc and /var land in a folder of the test, and /run is in memory, so that several can
have `/var/lib/tarmac` side by side. Ending a machine's first process ends all its processes, as pulling the plug does.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.cgroups.mounted import mounted
from tarmac.base.randomness import Randomness
from tests.datapath.lab import Lab
from tests.support.kubectl import kubectl_path

TARMAC = (sys.executable, "-m", "tarmac.apps.main")
AGENT_CONFIG = "apiVersion: config.tarmac.dev/v1alpha1\nkind: AgentConfig\ncgroupRoot: {}\n"
_BOOT = """
set -e
mount --make-rslave / # what others unmount meanwhile must not live on in here
for d in etc var usr opt; do
  mkdir -p "$1/$d" "$1/$d.work"
  mount -t overlay overlay -o "lowerdir=/$d,upperdir=$1/$d,workdir=$1/$d.work" "/$d"
done
mount -t tmpfs tmpfs /run
mkdir -p /var/lib/tarmac /etc/tarmac "$1/data"
mount --bind "$1/data" /var/lib/tarmac
hostname "$2"
exec sleep infinity
"""


class Box:
    """One machine. `run` executes a command on it, `start` one that stays."""

    program: tuple[str, ...] = TARMAC
    """The command `tarmac` of the machine."""

    def __init__(self, folder: Path, lab: Lab, number: int, name: str) -> None:
        self.name = name
        self.cgroup = f"/tarmac-test-machines-{Randomness().suffix(6)}"
        self._folder = folder / name
        self._folder.mkdir(parents=True)
        self._processes: list[subprocess.Popen[str]] = []
        self.address, self._network = self.wired(lab, number)
        self._boot()
        self.prepare()

    def wired(self, lab: Lab, number: int) -> tuple[str, Path]:
        """Set up its address and its network."""
        network = lab.machine(number)
        lab.command(network, "ip route add default via 198.18.0.254")  # nodes look for their default route
        return f"198.18.0.{number}", network

    def boot_command(self) -> list[str]:
        """Return the command of the machine's first process."""
        return ["sh", "-c", _BOOT, "sh", str(self._folder), self.name]

    def _boot(self) -> None:
        command = ["nsenter", f"--net={self._network}", "unshare", "--mount", "--pid", "--uts", "--fork"]
        command += ["--kill-child", "--mount-proc", *self.boot_command()]
        self._machine = subprocess.Popen(command)
        children = Path(f"/proc/{self._machine.pid}/task/{self._machine.pid}/children")
        until(lambda: (found := children.read_text().split()) and self.is_up(int(found[0])))
        self.pid = int(children.read_text().split()[0])

    def is_up(self, pid: int) -> bool:
        """Return true if the first process is the one that stays."""
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0")
        except OSError:
            return False

    def prepare(self) -> None:
        """Put pods' cgroups below one of this machine: boxes share only the cgroups."""
        self.path("/etc/tarmac").mkdir(exist_ok=True)
        self.path("/etc/tarmac/config.yaml").write_text(AGENT_CONFIG.format(self.cgroup))

    def kubectl(self, *words: str, stdin: str = "") -> str:
        """Run kubectl as the administrator, on a machine that is a server."""
        kubeconfig = "--kubeconfig=/var/lib/tarmac/kubeconfig"
        done = subprocess.run(
            self.command(kubectl_path(), kubeconfig, *words), input=stdin, capture_output=True, text=True, timeout=30
        )
        return done.stdout if done.returncode == 0 else done.stderr

    def path(self, inside: str) -> Path:
        """Return a file of the machine, as seen from outside."""
        return Path(f"/proc/{self.pid}/root{inside}")

    def command(self, *words: str) -> list[str]:
        """Return the command that runs these words on the machine."""
        return ["nsenter", f"--target={self.pid}", "--net", "--mount", "--pid", "--uts", *words]

    def run(self, *words: str, timeout: float = 90) -> subprocess.CompletedProcess[str]:
        """Run `tarmac WORDS` on the machine."""
        return subprocess.run(
            self.command(*self.program, *words), capture_output=True, text=True, timeout=timeout, env=self.environment()
        )

    def start(self, *words: str) -> Started:
        """Run `tarmac WORDS` on the machine, in the background."""
        log = self._folder / f"{words[0]}-{len(self._processes)}.out"
        with log.open("w") as out:
            process = subprocess.Popen(
                self.command(*self.program, *words), stdout=out, stderr=out, text=True, env=self.environment()
            )
        self._processes.append(process)
        return Started(process, log)

    def environment(self) -> dict[str, str]:
        """Return the environment of its commands."""
        return {**os.environ, "PYTHONUNBUFFERED": "1"}

    def processes(self) -> list[str]:
        """Return the command lines of all processes there, without the first; ended processes have none."""
        lines: list[str] = []
        for process in self.path("/proc").iterdir():
            if process.name.isdigit() and process.name != "1":
                with suppress(OSError):  # it has just ended
                    lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
        # An `nsenter` of the same machine waits for commands that were started from outside.
        return [line for line in lines if line and not line.startswith("nsenter ")]

    def leftovers(self) -> dict[str, list[str]]:
        """Return everything that a node can leave behind: processes, mounts, links, rules, cgroups, files."""
        mounts = [line.split()[4] for line in self.path("/proc/1/mountinfo").read_text().splitlines()]
        ours = re.compile("^/(run|var/lib)/tarmac/(agent|containerd|cni)")  # foreign mounts below /run stay visible
        links, rules = self._in_network("ip", "-o", "link"), self._in_network("nft", "list", "tables")
        files = [str(path) for top in ("/var/lib/tarmac", "/run/tarmac", "/etc/tarmac") for path in self._below(top)]
        return {
            "processes": self.processes(),
            "mounts": [each for each in mounts if ours.match(each)],
            "links": [line for line in links.splitlines() if not re.search(r"\b(lo|eth0)\b", line)],
            "rules": rules.splitlines(),
            "cgroups": [self.cgroup] if mounted().exists(f"{self.cgroup}/kubepods") else [],
            "files": files,
        }

    def _in_network(self, *words: str) -> str:
        """Run a program of the host: a fresh machine may not have it."""
        command = ["nsenter", f"--target={self.pid}", "--net", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _below(self, top: str) -> list[str]:
        folder = self.path(top)
        return [str(each).split("/root", 1)[1] for each in folder.rglob("*")] if folder.exists() else []

    def pull_the_plug(self) -> None:
        """Kill all processes at once with kill -9."""
        if self._machine.poll() is None:
            self._machine.kill()
            self._machine.wait(20)
        for process in self._processes:
            process.wait(20)

    def close(self) -> None:
        """End it, with its cgroups."""
        self.pull_the_plug()
        self.remove_cgroups()

    def remove_cgroups(self) -> None:
        """Remove its cgroups, as the kernel does when it boots."""
        hierarchy = mounted()

        def gone() -> bool:
            try:
                if hierarchy.exists(self.cgroup):
                    hierarchy.kill(self.cgroup)
                    hierarchy.remove(self.cgroup)
            except CgroupError:
                return False
            return not hierarchy.exists(self.cgroup)

        until(gone, 20)


class Started:
    """A command that stays."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def said(self) -> str:
        return self.log.read_text()

    def until_said(self, text: str, seconds: float = 60) -> None:
        """Wait for a line, or fail with the output."""
        deadline = time.monotonic() + seconds
        while text not in self.said:
            assert self.process.poll() is None or text in self.said, f"ended with {self.process.poll()}:\n{self.said}"
            assert time.monotonic() < deadline, f"no {text!r} in:\n{self.said}"
            time.sleep(0.02)

    def until_told(self, steps: Sequence[str], seconds: float = 60) -> None:
        """Wait for these steps: the output must have exactly them up to there."""
        count = len(steps)
        self.until_said(f"tarmac: {steps[-1]}\n", seconds)
        until(lambda: len(self._told()) >= count, seconds)
        assert self._told()[:count] == [*steps], self.said

    def _told(self) -> list[str]:
        return re.findall(r"^tarmac: ([a-z-]+)$", self.said, re.MULTILINE)

    def kill(self) -> None:
        """Kill the command alone with kill -9. `nsenter` waits for it, in the namespace of its machine."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in children:
            os.kill(int(pid), signal.SIGKILL)
        self.process.wait(20)

    def stop(self) -> int:
        """Send SIGTERM; return the exit code."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in children:
            os.kill(int(pid), signal.SIGTERM)
        return self.process.wait(40)


def until(true: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for a condition; fail if it does not hold in time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "the condition did not hold in time"
        time.sleep(0.05)


_Kind = TypeVar("_Kind", bound=Box)


@contextmanager
def boxes(folder: Path, *names: str) -> Generator[list[Box]]:
    """Machines on one wire, each with an address of its own; always removed afterwards."""
    with boxes_of(Box, folder, *names) as made:
        yield made


@contextmanager
def boxes_of(kind: type[_Kind], folder: Path, *names: str) -> Generator[list[_Kind]]:
    """The same of another class."""
    lab = Lab()
    made: list[_Kind] = []
    try:
        for number, name in enumerate(names, 1):
            made.append(kind(folder, lab, number, name))
        yield made
    finally:
        for box in made:
            box.close()
        lab.close()
