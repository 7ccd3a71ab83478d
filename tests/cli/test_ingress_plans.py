"""`plan` of Services of type LoadBalancer, pools, addresses, peers and annotated Workloads."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import yaml

from tarmac.api.compute.names import ANNOTATION_ANYCAST
from tarmac.api.ingress.names import ANNOTATION_ADDRESSES, ANNOTATION_POOL, API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.plan import plan
from tarmac.client.client import Client
from tarmac.client.targets.untyped import PODS, SERVICES
from tests.cli.test_verbs_on_a_planet import WithoutSubresources
from tests.controllers.cities import Cities
from tests.controllers.test_public_addresses import ADDRESSES, PEERS, POOLS, gateway, held, pool, report, service, told


class File:
    """A file, planned by a server with the subresource and by the command itself, with equal results."""

    def __init__(self, cities: Cities, path: Path) -> None:
        elsewhere = Client(WithoutSubresources(cities.user.transport), cities.user.clock)
        self._servers, self._path = (cities.user, elsewhere), path / "file.yaml"
        self.err = io.StringIO()

    async def plan(self, *objects: JsonObject) -> tuple[int, JsonObject]:
        """Return the exit code and the plan; of several objects, the plans by name."""
        self._write(objects)
        answers: list[tuple[int, JsonObject]] = []
        for server in self._servers:
            out = io.StringIO()
            code = await plan(server, "default", str(self._path), [], Console(out, self.err), "json")
            answers.append((code, json.loads(out.getvalue())))
        assert answers[0] == answers[1]
        return answers[0]

    async def text(self, *objects: JsonObject) -> str:
        self._write(objects)
        out = io.StringIO()
        await plan(self._servers[0], "default", str(self._path), [], Console(out, self.err), "text")
        return out.getvalue()

    def _write(self, objects: tuple[JsonObject, ...]) -> None:
        self._path.write_text(yaml.safe_dump_all(json.loads(json.dumps(objects))))


def reasons(found: JsonObject) -> list[str]:
    return [each["reason"] for each in found["refused"]]


async def pod(cities: Cities, name: str, node: str, app: str = "web") -> None:
    """Create a pod on a node; it need not be ready."""
    spec = {"nodeName": node, "containers": [{"name": "a", "image": "a"}]}
    metadata = {"name": name, "namespace": "default", "labels": {"app": app}}
    await cities.user.resource(PODS).create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def test_a_service_is_planned_from_its_first_obstacle_until_it_would_be_reached(tmp_path: Path) -> None:
    async def story(cities: Cities) -> None:
        file = File(cities, tmp_path)
        code, found = await file.plan(service())
        assert (code, reasons(found)) == (2, ["NoPool", "NoEndpoints"])
        assert all(each["change"] for each in found["refused"])
        await cities.user.resource(POOLS).create(pool())
        await pod(cities, "web-0", "lhr-0")
        code, found = await file.plan(service())
        assert (code, reasons(found), found["pools"]) == (2, ["NoGateway"], ["public"])
        await gateway(cities)
        await cities.wait(2)
        code, found = await file.plan(service(annotations={ANNOTATION_ADDRESSES: "203.0.113.5"}))
        assert (code, found["refused"]) == (0, [])
        assert (found["addresses"], found["gateways"], found["endpoints"]) == (["203.0.113.5"], ["dfw-0"], ["LHR 1"])
        assert (await file.plan(service()))[1]["addresses"] == ["any free IPv4 address"]
        shown = await file.text(service(annotations={ANNOTATION_ADDRESSES: "203.0.113.5"}))
        assert "Service default/web would hold 203.0.113.5." in shown
        assert (await cities.user.resource(SERVICES).list("default")).items == [], "a plan creates nothing"
        assert await held(cities) == {}

    told(story)


def test_the_traffic_policy_local_needs_a_gateway_with_an_endpoint(tmp_path: Path) -> None:
    async def story(cities: Cities) -> None:
        file, local = File(cities, tmp_path), service(externalTrafficPolicy="Local")
        await cities.user.resource(POOLS).create(pool())
        await gateway(cities)
        await pod(cities, "web-0", "lhr-0")
        await cities.wait(2)
        code, found = await file.plan(local)
        assert (code, reasons(found), found["gateways"]) == (2, ["NoEndpoints"], [])
        await pod(cities, "web-1", "dfw-0")
        assert (await file.plan(local))[1]["gateways"] == ["dfw-0"]

    told(story)


def test_services_of_one_file_take_their_addresses_before_each_other(tmp_path: Path) -> None:
    async def story(cities: Cities) -> None:
        file, wish = File(cities, tmp_path), {ANNOTATION_ADDRESSES: "203.0.113.5"}
        await gateway(cities)
        await pod(cities, "web-0", "dfw-0")
        await cities.wait(2)
        both = (service("web", annotations=wish), service("db", annotations=wish))
        # The pool of the file counts as created, and each Service finds the other's address taken.
        _, found = await file.plan(pool(), *both)
        plans = {name: each for each in found["plans"] for name in ("service", "addressPool") if name in each}
        by_name = {each.get("service", ""): each for each in found["plans"]}
        assert reasons(by_name["default/web"])[0] == reasons(by_name["default/db"])[0] == "AddressInUse"
        assert plans["addressPool"]["holders"] == ["Service default/web"]
        assert (plans["addressPool"]["gateways"], plans["addressPool"]["available"]) == (["dfw-0"], 14)

    told(story)


def test_refusals_of_a_named_pool_and_of_a_manifest_name_the_cause(tmp_path: Path) -> None:
    async def story(cities: Cities) -> None:
        file = File(cities, tmp_path)
        await cities.user.resource(POOLS).create(pool(allowedNamespaces={"names": ["other"]}))
        await pod(cities, "web-0", "dfw-0")
        assert reasons((await file.plan(service(annotations={ANNOTATION_POOL: "public"})))[1]) == ["NotAuthorized"]
        assert reasons((await file.plan(service(annotations={ANNOTATION_POOL: "lost"})))[1]) == ["PoolNotFound"]
        code, found = await file.plan(service(externalTrafficPolicy="Sometimes"))
        assert (code, found["accepted"]) == (2, False)
        assert found["causes"][0]["field"] == "spec.externalTrafficPolicy"

    told(story)


def test_a_pool_without_namespaces_or_gateways_says_so(tmp_path: Path) -> None:
    async def story(cities: Cities) -> None:
        file = File(cities, tmp_path)
        code, found = await file.plan(pool(allowedNamespaces={}))
        assert (code, reasons(found)) == (2, ["NoGateway", "NotAuthorized"])
        await cities.user.resource(SERVICES).create(service())
        await gateway(cities)
        await cities.wait(2)
        code, found = await file.plan(pool())
        assert (code, found["holders"]) == (0, ["Service default/web"])

    told(story)


def test_an_address_and_a_peer_of_managers_are_planned(tmp_path: Path) -> None:
    async def story(cities: Cities) -> None:
        file = File(cities, tmp_path)
        spec = {"address": "203.0.113.9", "poolName": "public", "claimRef": {"namespace": "default"}}
        kept = {"apiVersion": API_VERSION, "kind": "PublicAddress", "metadata": {"name": "203.0.113.9"}, "spec": spec}
        code, found = await file.plan(kept)
        assert (code, reasons(found), found["holders"]) == (2, ["PoolNotFound"], ["namespace default"])
        await gateway(cities)
        await cities.wait(2)
        code, found = await file.plan(pool(), kept)
        assert (code, found["plans"][-1]["gateways"]) == (0, ["dfw-0"])
        code, found = await file.plan(peer())
        assert (code, reasons(found), found["gateways"]) == (2, ["NoPool"], ["dfw-0"])
        code, found = await file.plan(pool(announce="bgp"), peer(), peer("far", pools=["lost"]))
        by_name = {each.get("bGPPeer", ""): each for each in found["plans"]}
        assert (by_name["edge"]["pools"], by_name["edge"]["refused"]) == (["public"], [])
        assert reasons(by_name["far"]) == ["PoolNotFound", "NoPool"]
        assert (await cities.user.resource(ADDRESSES).list()).items == []

    told(story)


def peer(name: str = "edge", **spec: Any) -> JsonObject:
    full = {"address": "192.0.2.254", "asn": 65001, "localASN": 65010, **spec}
    return {"apiVersion": API_VERSION, "kind": "BGPPeer", "metadata": {"name": name}, "spec": full}


async def established(cities: Cities) -> None:
    await cities.user.resource(PEERS).create(peer())
    nodes = [{"name": "dfw-0", "state": "Established"}]
    await cities.user.resource(PEERS).patch("edge", {"status": {"nodes": nodes}}, subresource="status")


def anycast(*ports: int) -> JsonObject:
    """A Workload of one container that asks for an anycast address."""
    container: JsonObject = {
        "name": "web",
        "image": "docker.io/library/web",
        "ports": [{"name": f"p{n}", "port": n} for n in ports],
    }
    template = {
        "spec": {
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {"containers": [container]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
        }
    }
    scale = {"minReplicas": 1}
    placements = [{"name": "near", "cityCodes": ["DFW"], "scaleSettings": scale}]
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "hello", "annotations": {ANNOTATION_ANYCAST: "true"}},
        "spec": {"template": template, "placements": placements},
    }


def test_an_annotated_workload_is_planned_with_its_pool_and_cities(tmp_path: Path) -> None:
    async def story(cities: Cities) -> None:
        file = File(cities, tmp_path)
        await gateway(cities)
        _, found = await file.plan(anycast(80))
        assert found["accepted"], found["causes"]
        assert reasons(found["anycast"])[0] == "NoPool"
        wide = pool("wide", scope="Anycast", announce="bgp", ranges=[{"cidr": "198.51.100.0/24"}])
        await cities.user.resource(POOLS).create(wide)
        await cities.wait(2)
        assert "NoPeer" in reasons((await file.plan(anycast(80)))[1]["anycast"])
        await established(cities)
        await cities.wait(2)
        _, found = await file.plan(anycast(80))
        assert (found["anycast"]["pools"], found["anycast"]["addresses"]) == (["wide"], ["any free IPv4 address"])
        assert reasons((await file.plan(anycast()))[1]["anycast"])[0] == "NoPorts"

    told(story)


def test_a_service_that_holds_its_address_keeps_it_in_a_plan(tmp_path: Path) -> None:
    async def story(cities: Cities) -> None:
        file = File(cities, tmp_path)
        await gateway(cities)
        await cities.user.resource(POOLS).create(pool())
        await cities.user.resource(SERVICES).create(service(annotations={ANNOTATION_ADDRESSES: "203.0.113.5"}))
        await pod(cities, "web-0", "dfw-0")
        await cities.wait(3)
        await report(cities, "203.0.113.5", {"name": "dfw-0", "announcing": True})
        code, found = await file.plan(service(port=81))
        assert (code, found["addresses"]) == (0, ["203.0.113.5"])

    told(story)
