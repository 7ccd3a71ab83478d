"""Servers with members of etcd, from nothing: each command is a line that the command before it has printed.

Hosts are network namespaces with folders of their own; etcd, containerd, the servers and the agents are the real ones.
A `systemctl` that knows a handful of words runs what the package's own units say.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tarmac.runtimes.parts import parts_folder
from tests.machines.boxes import TARMAC, Box, Started, boxes_of, until
from tests.machines.fakesystemd import SYSTEMCTL
from tests.machines.planet import instance
from tests.store.conftest import ETCDS, etcd_binary
from tools import etcd_package
from tools.cache import ROOT
from tools.package import UNITS

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

STEPS = ("etcd",)
"""The step that commands have in addition where Tarmac runs etcd. Each command is killed at it, and repeated."""
_TIMEOUT = 200.0


class InstalledHost(Box):
    """A host with the commands and units of the packages, as they are in this clone."""

    def prepare(self) -> None:
        """Install, and let pods have their cgroups below one of this host."""
        super().prepare()
        self.path("/run/systemd/system").mkdir(parents=True)
        programs = {
            "/usr/bin/tarmac": f'#!/bin/sh\nexec {shlex.join(TARMAC)} "$@"\n',
            "/usr/local/bin/systemctl": SYSTEMCTL,
            "/usr/local/bin/etcd": f'#!/bin/sh\nexec {etcd_binary(ETCDS[-1])} "$@"\n',
        }
        for place, text in programs.items():
            self.path(place).write_text(text)
            self.path(place).chmod(0o755)
        self.path("/usr/lib/systemd/system").mkdir(parents=True, exist_ok=True)
        units = [ROOT / "packaging" / unit for unit in UNITS] + [etcd_package.FOLDER / etcd_package.UNIT]
        for unit in units:
            self.path(f"/usr/lib/systemd/system/{unit.name}").write_text(unit.read_text())

    def environment(self) -> dict[str, str]:
        """That of a login: the programs of this host alone."""
        known = {name: value for name, value in super().environment().items() if name != "KUBECONFIG"}
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        # A home of its own: the kubeconfig of the user who runs the tests is none of this host's.
        return {**known, "PATH": path, "HOME": "/run", "TARMAC_NODE_PARTS": str(parts_folder())}

    def types(self, line: str, code: int | None = 0) -> str:
        """Run a line in a terminal, and return everything that it shows."""
        done = subprocess.run(
            self.command("script", "-qec", line, "/dev/null"), capture_output=True, text=True, timeout=_TIMEOUT,
            env=self.environment(), stdin=subprocess.DEVNULL,
        )  # fmt: skip
        shown = done.stdout.replace("\r", "")
        assert code is None or done.returncode == code, f"{self.name}: {line}\n{shown}{done.stderr}\n{self.logs()}"
        return shown

    def killed(self, line: str) -> str:
        """Kill the command of a line with kill -9 when it reports the step, then run the line; return its output."""
        for step in STEPS:
            log = self._folder / f"killed-at-{step}.out"
            with log.open("w") as out:
                words = self.command("sh", "-c", line)
                running = subprocess.Popen(  # a session of its own: all of a pipeline is killed, and no unit
                    words, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=self.environment(), text=True,
                    start_new_session=True,
                )  # fmt: skip
            Started(running, log).until_said(f"tarmac: {step}\n", _TIMEOUT)
            os.killpg(running.pid, signal.SIGKILL)
            running.wait(20)
        return self.types(line)

    def logs(self) -> str:
        """The last lines of the units that this host runs."""
        found = self.path("/var/log").glob("tarmac-*.log")
        return "\n".join(f"{each.name}: {line}" for each in found for line in each.read_text().splitlines()[-5:])


def printed(said: str, head: str) -> str:
    """The command that was printed after these words."""
    found = re.search(rf"{re.escape(head)}(.+)$", said, re.MULTILINE)
    assert found, f"no {head!r} in:\n{said}"
    return found[1].strip()


def ready(host: InstalledHost) -> int:
    workload = json.loads(host.kubectl("get", "workload", "web", "-o", "json"))
    return (workload.get("status") or {}).get("readyReplicas", 0)


def test_a_lost_server_is_replaced_by_printed_lines_alone(tmp_path: Path) -> None:
    names = ("alpha", "beta", "gamma", "delta")
    with boxes_of(InstalledHost, tmp_path, *names) as (alpha, beta, gamma, delta):
        said = alpha.killed("tarmac init --with-etcd --location DFW --timeout 3m")
        said = beta.killed(printed(said, "join another server: "))
        assert "etcd: 2 members, and the loss of any of them stops writes" in said
        said = gamma.types(printed(said, "join another server: "))
        assert "etcd: 3 members, of which 1 may be lost" in said
        said = gamma.types(printed(said, "add a site: ").replace("CODE", "LHR"))
        said = gamma.types(printed(said, "next: "))
        assert "joined as beta" in beta.types(printed(said, "on the new host, as root: "))
        until(lambda: "3 of 3 members respond" in alpha.types("tarmac status", code=None), 60)
        alpha.kubectl("create", "-f", "-", stdin=json.dumps(instance("web", ["DFW", "LHR"])))
        until(lambda: ready(alpha) == 2, 90)

        gamma.pull_the_plug()
        until(lambda: "2 of 3 members respond; not gamma" in alpha.types("tarmac status", code=None), 90)
        said = alpha.types("tarmac status", code=1)
        refused = alpha.types("tarmac etcd remove beta", code=1)
        assert "beta stays: the quorum would be lost: of the others, gamma does not respond" in refused
        assert "alpha responds; tarmac leave --delete-data" in beta.types("tarmac etcd replace alpha", code=1)
        unwrapped = " ".join(said.split())  # the line is as wide as the terminal
        said = alpha.types(printed(unwrapped, "if its host is lost: "))
        assert "etcd: gamma removed; 2 members" in said
        said = delta.types(printed(said, "join another server: "))
        assert "etcd: 3 members, of which 1 may be lost" in said
        listed = json.loads(delta.types("tarmac etcd members -o json"))["members"]
        assert {each["name"]: (each["votes"], each["responds"]) for each in listed} == dict.fromkeys(
            ("alpha", "beta", "delta"), (True, True)
        )
        until(lambda: "3 of 3 members respond" in delta.types("tarmac status", code=None), 90)
        assert ready(delta) == 2, "both sites go on"

        assert "left" in delta.killed("tarmac leave --delete-data")
        assert not delta.path("/var/lib/tarmac/etcd").exists()
        assert [each for each in delta.processes() if "etcd" in each] == []
        assert "2 members, and the loss of any of them stops writes" in beta.types("tarmac etcd members")
        assert "created" in beta.kubectl("create", "configmap", "after", "--from-literal=a=b")
