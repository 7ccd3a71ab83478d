"""Three real cities under constant traffic while faults happen one after another: each failed call has a cause.

A fault explains only calls that began within its limit: the time in which the platform must carry such calls again. The
table that this prints is in docs/numbers.md.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import inf

import pytest

from tarmac.api.compute.names import LABEL_CITY_CODE
from tarmac.api.networking.ports import ENCRYPTED_PORT, TUNNEL_PORT
from tests.egress.calling import Call, Kind, Row, Target, Traffic, rows, table, traffic
from tests.egress.planet import CITIES, ORDERS, SERVICE, Outside
from tests.egress.test_faults import MENDED, SILENT, in_city, mend_routes
from tests.node.planet import Json, eventually

pytestmark = [pytest.mark.root, pytest.mark.timeout(900), pytest.mark.soak(minutes=7, only=True)]

NAME = "steady"
SERVES = "exec httpd -f -p 8000 -h /etc"
EXITS = "httpd -p 8000 -h /etc; sleep 2; exit 1"
UNREADY = 45.0  # seconds until a silent node is not Ready and its instances have left the endpoints
RETURNED = 10.0  # seconds until a city that is back has its tunnels, its routes and its address again
QUESTION, ANSWER = b"GET /passwd HTTP/1.0\r\n\r\n", b"200 OK"


def workload(script: str) -> Json:
    container: Json = {"name": "main", "image": "registry.local/tarmac/busybox:1", "command": ["sh", "-c", script]}
    resources = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "100m", "memory": "128Mi"}}
    runtime: Json = {"resources": resources, "sandbox": {"containers": [container]}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": NAME},
        "spec": {
            "template": {"spec": {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}]}},
            "placements": [{"name": "all", "cityCodes": list(CITIES), "scaleSettings": {"minReplicas": 1}}],
        },
    }


def service() -> Json:
    selector = {"compute.datumapis.com/workload-name": NAME}
    spec = {"selector": selector, "ports": [{"port": 80, "targetPort": 8000}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME}, "spec": spec}


@dataclass(frozen=True)
class Cause:
    """The reason why calls fail during a fault, and for how long: seconds since the fault began, or since it ended."""

    why: str
    begun: float = inf
    ended: float = inf

    def explains(self, call: Call, began: float, ended: float) -> bool:
        """Return true if the call began before the limit."""
        return call.began <= min(began + self.begun, ended + self.ended)


@dataclass
class Trial:
    """The planet, its traffic, and the rows of the faults so far."""

    outside: Outside
    traffic: Traffic
    rows: list[Row] = field(default_factory=list[Row])
    causes: dict[tuple[str, Kind, bool], str] = field(default_factory=dict[tuple[str, Kind, bool], str])

    def during(
        self,
        fault: str,
        cause: Callable[[], object],
        explained: Callable[[Call], Cause | None],
        city: str = "",
    ) -> None:
        """Cause a fault, wait until calls succeed again, and fail for a call that no cause explains."""
        self.traffic.settle()
        began = time.monotonic()
        cause()
        ended = time.monotonic()
        self.traffic.settle()
        calls = self.traffic.between(began, time.monotonic())
        failures = [each for each in calls if each.error]
        unexplained: list[str] = []
        for each in failures:
            found = explained(each)
            if found is not None:
                self.causes.setdefault((fault, each.target.kind, each.target.client == city), found.why)
            if found is None or not found.explains(each, began, ended):
                unexplained.append(f"{each.began - began:.1f} s after the fault began: {each}")
        self.rows += rows(fault, calls, city)
        assert not unexplained, f"{fault}: {len(unexplained)} of {len(failures)} failures, such as {unexplained[0]}"

    def shown(self) -> str:
        return table(self.rows, lambda row: self.causes[row.fault, row.kind, row.clients in self.outside.cities])


@pytest.fixture
def trial(outside: Outside) -> Iterator[Trial]:
    planet = outside.planet
    outside.use("externalservice.yaml", SERVICE)
    clients = {f"calls-{node}": node for node in outside.cities}
    try:
        planet.apply(workload(SERVES), service())
        for name, node in clients.items():
            outside.plain(name, "orders", node)
        for name in clients:
            outside.wait_for_pod(name)
        planet.wait(f"workload/{NAME}", "condition=Ready", 120)
        planet.wait(f"externalservice/{SERVICE}", "condition=Ready", 60)
        targets = [(outside.netns(name), each) for name, node in clients.items() for each in targets_of(outside, node)]
        with traffic(targets) as made:
            yield Trial(outside, made)
    finally:
        planet.kubectl.run("delete", f"workload/{NAME}", f"service/{NAME}", "--ignore-not-found", "--wait", timeout=60)
        planet.remove(*clients)


def targets_of(outside: Outside, client: str) -> Iterator[Target]:
    """The Service, the instances of the other cities, and the server outside."""
    address = outside.planet.get("service", NAME)["spec"]["clusterIP"]
    yield Target("service", client, "", address, 80, QUESTION, ANSWER)
    for each in outside.planet.get("instances", "-l", f"compute.datumapis.com/workload-name={NAME}")["items"]:
        node = f"{each['metadata']['labels']['compute.datumapis.com/city-code'].lower()}-0"
        if node != client:
            (interface,) = each["status"]["networkInterfaces"]
            own = interface["assignments"]["networkIP"]
            yield Target("instance", client, node, own, 8000, QUESTION, ANSWER)
    yield Target("outside", client, "", outside.dialled(), 8000, b"\n", f"you are {ORDERS} ".encode())


def test_every_failed_call_has_a_cause(trial: Trial) -> None:
    outside = trial.outside
    try:
        release_that_exits(trial)
        owner = outside.gateway()
        trial.during("gateway paused for 4 s", partial(pause, outside, owner), lost_lease)
        owner = await_owner(outside)
        trial.during("gateway cordoned", partial(cordon, outside, owner), lambda _: None)
        trial.during(
            "tunnel port of SEA closed for 10 s", partial(close_ports, outside, "sea-0"), beyond_the_port, "sea-0"
        )
        owner = await_owner(outside)
        trial.during("agent of a gateway killed", partial(kill, outside, owner), partial(of_killed_agent, owner), owner)
        other = next(each for each in outside.cities if each != await_owner(outside))
        trial.during("agent of another node killed", partial(kill, outside, other), lambda _: None)
        lost = "sea-0 lost for 75 s, and SEA with it"
        trial.during(lost, partial(lose, outside, "sea-0"), partial(of_lost_city, "sea-0"), "sea-0")
    finally:
        print(f"\n{trial.shown()}")


def release_that_exits(trial: Trial) -> None:
    planet, first = trial.outside.planet, set[str]()

    def release() -> None:
        planet.apply(workload(EXITS))
        eventually(lambda: bool(running(planet.get)), 30, "the first wave")
        while found := running(planet.get):
            first.update(found)
            time.sleep(0.5)
        planet.wait(f"workload/{NAME}", "jsonpath={.status.readyReplicas}=3", 90)

    def explained(call: Call) -> Cause | None:
        if call.target.kind == "instance" and call.target.city in first:
            return Cause("the one instance of the first city is replaced, exits, and is taken back", ended=MENDED)
        why = "the connection went to the exited instance before it left the endpoints"
        return Cause(why, ended=MENDED) if is_service(call) else None

    trial.during("release that exits after 2 s", release, explained)
    assert len(first) == 1, "the release has reached a second city"


def running(get: Callable[..., Json]) -> set[str]:
    """Return the nodes with instances of the bad release."""
    items = get("instances", "-l", f"compute.datumapis.com/workload-name={NAME}")["items"]
    return {
        f"{each['metadata']['labels']['compute.datumapis.com/city-code'].lower()}-0"
        for each in items
        if EXITS in json.dumps(each["spec"])
    }


def is_service(call: Call) -> bool:
    return call.target.kind == "service"


def lost_lease(call: Call) -> Cause | None:
    """The address has no owner until the lease of the old one has expired."""
    why = "no gateway carries the address until the lease of the lost one ends"
    return Cause(why, begun=SILENT) if call.target.kind == "outside" else None


def of_killed_agent(node: str, call: Call) -> Cause | None:
    """The agent itself leads pods of its node to the next owner."""
    if call.target.kind == "outside" and call.target.client == node:
        return Cause("pods of the node follow the next owner once its agent runs again", ended=MENDED)
    return lost_lease(call)


def beyond_the_port(call: Call) -> Cause | None:
    if call.target.kind == "outside":
        return Cause("the path between the client's node and the gateway needs the closed port", ended=MENDED)
    if is_service(call):
        return Cause("endpoints on the other side of the port stay Ready: their own node reaches them", ended=MENDED)
    why = "the port is between the client and the instance"
    return Cause(why, ended=MENDED) if call.concerns("sea-0") else None


def of_lost_city(city: str, call: Call) -> Cause | None:
    if call.target.client == city:
        return Cause("the client is in the lost city", ended=RETURNED)
    if call.target.kind == "outside":
        return Cause("the gateway of the lost city is replaced when its lease ends", begun=SILENT)
    if is_service(call):
        return Cause("the lost instance leaves the endpoints once its node is not Ready", begun=UNREADY)
    return Cause("the instance is in the lost city", ended=RETURNED) if call.target.city == city else None


def await_owner(outside: Outside) -> str:
    """The owner, once another gateway could take over."""
    eventually(lambda: bool(outside.gateway()) and len(outside.standing()) == len(CITIES), 60, "a gateway in reserve")
    time.sleep(3)  # a vote counts one lease after its voter has started
    return outside.gateway()


def pause(outside: Outside, node: str) -> None:
    (agent,) = outside.agents(node)
    os.kill(agent, signal.SIGSTOP)
    try:
        time.sleep(4)
    finally:
        os.kill(agent, signal.SIGCONT)


def cordon(outside: Outside, node: str) -> None:
    outside.planet.kubectl("cordon", node)
    try:
        eventually(lambda: outside.gateway() not in ("", node), what="the next owner")
        time.sleep(2)
    finally:
        outside.planet.kubectl("uncordon", node)


def close_ports(outside: Outside, node: str) -> None:
    """Drop tunnel packets to a node."""
    rule = f"add rule inet closed in udp dport {{ {TUNNEL_PORT}, {ENCRYPTED_PORT} }} drop"
    chain = "add chain inet closed in { type filter hook input priority -200; }"
    place = outside.cities[node].host.namespace
    nft = ["nsenter", f"--net={place}", "nft"]
    subprocess.run([*nft, f"add table inet closed; {chain}; {rule}"], check=True, timeout=20)
    try:
        time.sleep(10)
    finally:
        subprocess.run([*nft, "delete table inet closed"], check=True, timeout=20)


def kill(outside: Outside, node: str) -> None:
    (agent,) = outside.agents(node)
    os.kill(agent, signal.SIGKILL)
    eventually(lambda: bool(outside.agents(node)) and outside.votes(node), 60, "the agent again")


def ready(outside: Outside, node: str) -> str:
    conditions = outside.planet.get("node", node)["status"]["conditions"]
    return next(each["status"] for each in conditions if each["type"] == "Ready")


def lose(outside: Outside, node: str) -> None:
    """A node without its links, and with it the city that has no other node: both are lost for the server as well."""
    for each in ("eth0", "outside0"):
        in_city(outside, node, f"ip link set {each} down")
    ends = time.monotonic() + 75
    try:
        eventually(lambda: ready(outside, node) == "Unknown", 60, "the loss of the node")
        deployments = outside.planet.get("workloaddeployments", "-l", f"{LABEL_CITY_CODE}={node[:3].upper()}")["items"]
        assert [each["status"].get("readyReplicas", 0) for each in deployments] == [0] * len(deployments)
        assert deployments, "the city has deployments"
        time.sleep(max(0, ends - time.monotonic()))
    finally:
        for each in ("eth0", "outside0"):
            in_city(outside, node, f"ip link set {each} up")
        mend_routes(outside, node)
