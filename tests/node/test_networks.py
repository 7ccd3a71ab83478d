"""Instances across cities: by name over both families, apart where networks are, and only as policies allow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tarmac.api.compute.names import LABEL_CITY_CODE, LABEL_WORKLOAD_NAME
from tarmac.api.networking.names import ANNOTATION_NETWORK
from tests.node.planet import Json, Planet, eventually

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

SERVE = "echo $(hostname) > /tmp/index.html; httpd -p 8000 -h /tmp; exec httpd -f -p 9000 -h /tmp"
FAMILIES = ("IPv4", "IPv6")


def workload(name: str, cities: list[str], networks: list[str], policy: Json | None = None, **labels: str) -> Json:
    """One instance in each city, on these networks, serving on two ports."""
    container: Json = {
        "name": "main",
        "image": "registry.local/tarmac/busybox:1",
        "command": ["sh", "-c", SERVE],
        "ports": [{"name": "http", "port": 8000}, {"name": "other", "port": 9000}],
    }
    interfaces: list[Json] = [{"network": {"name": network}, "ipFamilies": list(FAMILIES)} for network in networks]
    if policy is not None:
        interfaces[0]["networkPolicy"] = policy
    resources = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "100m", "memory": "128Mi"}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "runtime": {"resources": resources, "sandbox": {"containers": [container]}},
                    "networkInterfaces": interfaces,
                },
            },
            "placements": [{"name": "all", "cityCodes": cities, "scaleSettings": {"minReplicas": 1}}],
        },
    }


def network(name: str, ipv4: str = "10.77.0.0/16") -> Json:
    """A network; several have the same range."""
    return {
        "apiVersion": "networking.datumapis.com/v1alpha",
        "kind": "Network",
        "metadata": {"name": name},
        "spec": {"ipam": {"mode": "Auto", "ipv4Range": ipv4}, "ipFamilies": list(FAMILIES)},
    }


@dataclass(frozen=True)
class Instances:
    """The instances of these tests, by workload and city."""

    planet: Planet
    pods: dict[tuple[str, str], Json]

    def name(self, workload: str, city: str) -> str:
        return self.pods[workload, city]["metadata"]["name"]

    def addresses(self, workload: str, city: str) -> list[str]:
        return [each["ip"] for each in self.pods[workload, city]["status"]["podIPs"]]

    def fetch(self, caller: tuple[str, str], url: str) -> str:
        """Return the response that one instance gets from a URL; empty when it gets none."""
        command = ("exec", self.name(*caller), "--", "timeout", "4", "wget", "-qO-", url)
        return self.planet.kubectl.run(*command).out.strip()


def bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


ONLY_HTTP: Json = {"ingress": [{"ports": [{"port": 8000}]}]}


@pytest.fixture(scope="module")
def instances(planet: Planet) -> Iterator[Instances]:
    made: list[Any] = [
        network("red"),
        network("blue"),
        network("green", "10.78.0.0/16"),
        workload("east", ["DFW", "LHR"], ["red"]),
        workload("west", ["DFW"], ["blue"]),
        workload("north", ["DFW"], ["green"]),
        workload("both", ["LHR"], ["red", "green"]),
        workload("shy", ["DFW"], ["red"], ONLY_HTTP),
    ]
    planet.apply(*made)
    for each in made[3:]:
        planet.wait(f"workload/{each['metadata']['name']}", "condition=Available", 120)
    pods: dict[tuple[str, str], Json] = {}
    for found in planet.get("pods")["items"]:
        labels = found["metadata"]["labels"]
        owner = labels.get(LABEL_WORKLOAD_NAME)
        if owner:
            pods[owner, labels[LABEL_CITY_CODE]] = found
    yield Instances(planet, pods)
    planet.kubectl.run("delete", "workload", "east", "west", "north", "both", "shy", "--wait", timeout=90)
    planet.kubectl.run("delete", "network", "red", "blue", "green", "--wait", timeout=60)


def test_an_instance_is_reached_by_name_in_another_city_over_both_families(instances: Instances) -> None:
    there = instances.name("east", "LHR")
    full = f"{there}.east.default.inst.cluster.local"
    assert instances.fetch(("east", "DFW"), f"http://{full}:8000/") == there
    for address in instances.addresses("east", "LHR"):
        assert instances.fetch(("east", "DFW"), f"http://{bracketed(address)}:8000/") == there


def test_a_workloads_name_means_all_of_its_ready_instances(instances: Instances) -> None:
    answer = instances.fetch(("both", "LHR"), "http://east.default.inst.cluster.local:8000/")
    assert answer in {instances.name("east", "DFW"), instances.name("east", "LHR")}


def test_networks_of_one_range_do_not_meet(instances: Instances) -> None:
    for address in instances.addresses("east", "DFW"):
        heard = instances.fetch(("west", "DFW"), f"http://{bracketed(address)}:8000/")
        assert heard in ("", instances.name("west", "DFW")), "the same address may be its own, never another network's"
    assert (
        instances.fetch(
            ("west", "DFW"), f"http://{instances.name('east', 'DFW')}.east.default.inst.cluster.local:8000/"
        )
        == ""
    )


def test_an_instance_on_two_networks_is_in_both_and_reached_from_both(instances: Instances) -> None:
    planet, both = instances.planet, instances.name("both", "LHR")
    lines = planet.exec(both, "ip", "-o", "addr").splitlines()
    addresses = {each.split()[3].partition("/")[0] for each in lines if " inet 10.7" in each or " inet6 fd" in each}
    assert len(addresses) == 4
    heard: set[str] = set()
    for other in ("east", "north"):
        there, name = (other, "DFW"), instances.name(other, "DFW")
        assert instances.fetch(("both", "LHR"), f"http://{name}.{other}.default.inst.cluster.local:8000/") == name
        assert instances.fetch(there, f"http://{both}.both.default.inst.cluster.local:8000/") == both
        heard |= {each for each in addresses if instances.fetch(there, f"http://{bracketed(each)}:8000/") == both}
        for each in instances.addresses(*there):
            assert instances.fetch(("both", "LHR"), f"http://{bracketed(each)}:8000/") == name
    assert heard == addresses, "each address is reachable from its own network"


def test_an_instance_with_two_interfaces_on_one_network_answers_at_both(instances: Instances) -> None:
    planet = instances.planet
    planet.apply(workload("twin", ["LHR"], ["red", "red"]))
    try:
        planet.wait("workload/twin", "condition=Available", 120)
        [pod] = planet.get("pods", "-l", f"{LABEL_WORKLOAD_NAME}=twin")["items"]
        twin = pod["metadata"]["name"]
        lines = planet.exec(twin, "ip", "-o", "addr").splitlines()
        addresses = {each.split()[3].partition("/")[0] for each in lines if " inet 10.7" in each or " inet6 fd" in each}
        assert len(addresses) == 4
        for caller in (("east", "DFW"), ("east", "LHR")):
            for address in addresses:
                url = f"http://{bracketed(address)}:8000/"
                eventually(lambda url=url, caller=caller: instances.fetch(caller, url) == twin, 20, f"{caller} {url}")
    finally:
        planet.kubectl.run("delete", "workload/twin", "--ignore-not-found", "--wait", timeout=60)


def test_networks_that_overlap_are_not_put_on_one_instance(instances: Instances) -> None:
    planet = instances.planet
    asked = json.dumps(workload("torn", ["DFW"], ["red", "blue"]))
    refused = planet.kubectl.run("apply", "-f", "-", stdin=asked)
    assert refused.code != 0
    assert "spec.template.spec.networkInterfaces[1].network" in refused.err
    assert "Networks default/red (10.77.0.0/16) and default/blue (10.77.0.0/16), which overlap" in refused.err
    reason = "{.status.conditions[?(@.type=='Available')].reason}"
    planet.apply(workload("torn", ["DFW"], ["red", "late"]))
    try:
        planet.apply(network("late", "10.77.128.0/17"))
        planet.wait("workload/torn", f"jsonpath={reason}=NetworkRangesOverlap", 30)
        told = planet.kubectl("get", "events", "--field-selector", "reason=NetworkRangesOverlap", "-o", "name")
        assert told.strip()
        assert not planet.get("pods", "-l", f"{LABEL_WORKLOAD_NAME}=torn")["items"]
    finally:
        planet.kubectl.run("delete", "workload/torn", "network/late", "--ignore-not-found", "--wait", timeout=60)


def test_a_policy_of_an_interface_allows_what_it_lists_and_nothing_else(instances: Instances) -> None:
    for address in instances.addresses("shy", "DFW"):
        host = bracketed(address)
        assert instances.fetch(("east", "LHR"), f"http://{host}:8000/") == instances.name("shy", "DFW")
        assert instances.fetch(("east", "LHR"), f"http://{host}:9000/") == ""


def test_a_network_policy_is_enforced_while_it_is_there(instances: Instances) -> None:
    planet = instances.planet
    policy = {
        "apiVersion": "networking.datumapis.com/v1alpha",
        "kind": "NetworkPolicy",
        "metadata": {"name": "quiet"},
        "spec": {
            "selector": {"matchLabels": {LABEL_WORKLOAD_NAME: "east"}},
            "network": "red",
            "ingress": [{"ports": [{"port": "other"}]}],
        },
    }
    url = f"http://{instances.name('east', 'DFW')}.east.default.inst.cluster.local"
    caller = ("both", "LHR")
    planet.apply(policy)
    try:
        eventually(lambda: instances.fetch(caller, f"{url}:8000/") == "", 30, "the refusal")
        assert instances.fetch(caller, f"{url}:9000/") == instances.name("east", "DFW")
    finally:
        planet.kubectl("delete", "networkpolicies.networking.datumapis.com", "quiet")
    eventually(lambda: instances.fetch(caller, f"{url}:8000/") != "", 30, "the end of the refusal")


def test_a_service_reaches_its_instances_in_every_city(instances: Instances) -> None:
    planet = instances.planet
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "easy"},
        "spec": {
            "selector": {LABEL_WORKLOAD_NAME: "east"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
    planet.apply(service)
    wanted = {instances.name("east", city) for city in ("DFW", "LHR")}
    heard: set[str] = set()

    def both_answered() -> bool:
        heard.add(instances.fetch(("both", "LHR"), "http://easy.default.svc.cluster.local/"))
        return wanted <= heard

    try:
        eventually(both_answered, 60, f"answers of both instances (heard {heard})")
    finally:
        planet.kubectl("delete", "service", "easy")


def test_endpoints_that_somebody_writes_carry_connections_while_they_are_there(instances: Instances) -> None:
    planet, url = instances.planet, "http://byhand.default.svc.cluster.local/"
    metadata = {"name": "byhand", "annotations": {ANNOTATION_NETWORK: "default/red"}}
    address, *_ = instances.addresses("east", "DFW")
    subset = {"addresses": [{"ip": address}], "ports": [{"name": "http", "port": 8000}]}
    spec = {"ports": [{"name": "http", "port": 80}]}
    planet.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "byhand"}, "spec": spec})
    planet.apply({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]})
    try:
        wanted = instances.name("east", "DFW")
        eventually(lambda: instances.fetch(("both", "LHR"), url) == wanted, 60, "the answer of the written address")
        planet.kubectl("delete", "endpoints", "byhand")
        eventually(lambda: instances.fetch(("both", "LHR"), url) == "", 30, "the end of answers")
    finally:
        planet.kubectl("delete", "service", "byhand")


def test_the_metadata_service_knows_its_caller_and_wants_a_token(instances: Instances) -> None:
    planet, name = instances.planet, instances.name("east", "LHR")
    base = "http://169.254.169.254/v1"
    assert planet.kubectl.run("exec", name, "--", "wget", "-qO-", f"{base}/instance/city").out == ""
    script = (
        "(printf 'PUT /v1/token HTTP/1.1\\r\\nHost: m\\r\\nConnection: close\\r\\nContent-Length: 0\\r\\n"
        "X-Tarmac-Metadata-Token-TTL-Seconds: 60\\r\\n\\r\\n'; sleep 1) | nc -w 3 169.254.169.254 80 | tail -n1"
    )
    token = planet.exec(name, "sh", "-c", script).strip()
    header = f"X-Tarmac-Metadata-Token: {token}"
    assert planet.exec(name, "wget", "-qO-", "--header", header, f"{base}/instance/city").strip() == "LHR"
    assert planet.exec(name, "wget", "-qO-", "--header", header, f"{base}/instance/name").strip() == name
