"""Three sites as a user would set them up: two servers on an etcd of three members, a node in each of three cities.

A workload answers in every city, and a pod in every city repeatedly sends requests to its Service and records the times
of responses. The result of a loss is the longest time without a response on an untouched machine.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from tarmac.api.networking.cities import location_of
from tests.machines.boxes import Started, until
from tests.machines.sites import SiteBox

KUBECONFIG = ("--kubeconfig", "/var/lib/tarmac/kubeconfig")
CITIES = {"dallas": "dfw", "london": "lhr", "seattle": "sea"}
_PORT = 6443
_PATIENCE = 180.0
# The limit without a response: a few attempts that hit the instance of a lost machine. An overloaded machine gets
# proportionally more.
_GAP = 15.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
_ASK = "while true; do timeout 2 wget -qO- http://web/cgi-bin/whoami | head -1; sleep 0.2; done"
_SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"compute.datumapis.com/workload-name": "web"},
        "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
    },
}


def location(code: str) -> dict[str, Any]:
    """A city."""
    return location_of(code, code.upper(), "nodes")


def instance(name: str, cities: Sequence[str], image: str = "web", command: str = "") -> dict[str, Any]:
    """A Workload with an instance in each of the cities, of an image that every node has."""
    container: dict[str, Any] = {"name": "main", "image": f"registry.local/tarmac/{image}:1"}
    if command:
        container["command"] = ["sh", "-c", command]
    else:
        container["ports"] = [{"name": "http", "port": 8080}]
    resources = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "50m", "memory": "64Mi"}}
    runtime = {"resources": resources, "sandbox": {"containers": [container]}}
    placement = {"name": "all", "cityCodes": list(cities), "scaleSettings": {"minReplicas": 1}}
    template = {"spec": {"runtime": runtime, "networkInterfaces": [{"network": "default"}]}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"template": template, "placements": [placement]},
    }


class ThreeSites:
    """The machines, and the results of a test."""

    def __init__(self, machines: Sequence[SiteBox]) -> None:
        self.machines = list(machines)
        self.told: list[str] = []
        self._servers = self.machines[:2]
        self._members = {machine.name: machine.address for machine in machines}
        self._tokens: dict[str, str] = {}
        self._made = 0
        self._store = "etcd://" + ",".join(f"{machine.address}:2379" for machine in machines) + "?compact=0"

    def begin(self) -> None:
        """Set up one machine after the other, until the workload answers in all cities."""
        dallas, london, seattle = self.machines
        for machine in self.machines:
            machine.start_etcd(self._members)
        self._init(dallas)
        for machine in (london, seattle):
            self._create(location(CITIES[machine.name]))
        self._serve(london, self._token(dallas, "--server"))
        for machine in (london, seattle):
            self._join(machine)
        cities = [code.upper() for code in CITIES.values()]
        for each in (instance("web", cities), _SERVICE, instance("ask", cities, command=_ASK)):
            self._create(each)
        self._until_well()

    def lose(self, machine: SiteBox) -> None:
        """Pull its plug; the rest keeps the store and the workload working, until the node counts as lost."""
        began = time.time()
        machine.pull_the_plug()
        self._until_written(machine)
        written = time.time() - began
        until(lambda: "NotReady" in self._server(machine).kubectl("get", "node", machine.name), 90)
        self._judge(f"{machine.name} killed, writes go on after {written:.1f} s", machine, began)

    def bring_back(self, machine: SiteBox) -> None:
        """Run the same commands once more, on its old disk."""
        began = time.time()
        machine.boot_again()
        machine.start_etcd(self._members)
        if machine is self.machines[0] and machine in self._servers and machine.name not in self._tokens:
            self._init(machine)
        else:
            if machine in self._servers:
                self._serve(machine, self._tokens[f"server {machine.name}"])
            self._join(machine, self._tokens[machine.name])
        self._until_well()
        self._judge(f"{machine.name} back", machine, began)

    def leave(self, machine: SiteBox) -> None:
        """Leave in order: no state of Tarmac stays on it."""
        began = time.time()
        flags = ("--delete-data",) if machine in self._servers else ()
        done = machine.run("leave", "--drain-timeout", "20s", *flags, timeout=200)
        assert (done.returncode, done.stdout) == (0, "left\n"), done.stderr
        assert not any(self._left_on(machine).values()), self._left_on(machine)
        self._judge(f"{machine.name} left", machine, began)

    def join_again(self, machine: SiteBox) -> None:
        """Join with new tokens, as a new machine."""
        began = time.time()
        machine.prepare()
        if machine in self._servers:
            self._serve(machine, self._token(self._server(machine), "--server"))
        self._join(machine)
        self._until_well()
        self._judge(f"{machine.name} joined again", machine, began)

    # Commands.

    def _init(self, machine: SiteBox) -> None:
        here = ("--listen", f"{machine.address}:{_PORT}", "--location", CITIES[machine.name], "--store", self._store)
        machine.start("init", *here, "--foreground").until_said("join another machine", _PATIENCE)

    def _serve(self, machine: SiteBox, token: str) -> Started:
        self._tokens[f"server {machine.name}"] = token
        here = ("--listen", f"{machine.address}:{_PORT}", "--token", token)
        started = machine.start("join", "--server", self._server(machine).address, *here, "--foreground")
        started.until_said("joined as server", _PATIENCE)
        return started

    def _join(self, machine: SiteBox, token: str = "") -> None:
        others = [each.address for each in self._servers if each is not machine]
        token = token or self._token(self._server(machine), "--location", CITIES[machine.name])
        self._tokens[machine.name] = token
        machine.start("join", ",".join(others), "--token", token, "--foreground").until_said("joined as", _PATIENCE)

    def _token(self, server: SiteBox, *flags: str) -> str:
        made = server.run("token", "create", *flags, *KUBECONFIG)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def _server(self, besides: SiteBox) -> SiteBox:
        """Return a server other than this machine."""
        return next(each for each in self._servers if each is not besides)

    def _create(self, made: dict[str, Any]) -> None:
        said = self.machines[0].kubectl("create", "-f", "-", stdin=json.dumps(made))
        assert "created" in said, said

    # Checks.

    def _until_written(self, lost: SiteBox) -> None:
        self._made += 1
        words = ("create", "configmap", f"made-{self._made}", "--request-timeout=2s")
        until(lambda: any(word in self._server(lost).kubectl(*words) for word in ("created", "AlreadyExists")), 30)

    def _until_well(self) -> None:
        """Wait until every node is ready, every instance runs, and every city had a response just now."""
        server = self._servers[-1]

        def well() -> bool:
            workloads = json.loads(server.kubectl("get", "workloads", "-o", "json"))["items"]
            ready = [(each.get("status") or {}).get("readyReplicas") for each in workloads]
            now = time.time()
            return ready == [3, 3] and all(max(self._answers(each), default=0) > now - 3 for each in self.machines)

        until(well, _PATIENCE)

    def _judge(self, what: str, touched: SiteBox, began: float) -> None:
        """Check the longest time without a response since then, on untouched machines."""
        now = time.time()
        gaps: dict[str, float] = {}
        for machine in (each for each in self.machines if each is not touched):
            seen = [began, *(at for at in self._answers(machine) if at > began), now]
            gaps[machine.name] = max(later - earlier for earlier, later in pairwise(seen))
        longest = ", ".join(f"{name} {gap:.1f} s" for name, gap in gaps.items())
        self.told.append(f"{what} ({now - began:.0f} s): longest without an answer: {longest}")
        print(self.told[-1], flush=True)
        assert max(gaps.values()) < _GAP, self.told[-1]

    def _answers(self, machine: SiteBox) -> list[float]:
        """Return the times of responses in the log of its pod."""
        logs = machine.path("/var/log/pods").glob("default_ask-*/*/*.log")
        lines = [line.split(" ", 3) for log in logs for line in log.read_text().splitlines()]
        return sorted(_seconds(line[0]) for line in lines if line[-1].startswith("host: "))

    def _left_on(self, machine: SiteBox) -> dict[str, list[str]]:
        """Return everything left but the etcd, which is no part of Tarmac."""
        found = machine.leftovers()
        return {**found, "processes": [each for each in found["processes"] if "etcd" not in each]}


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
