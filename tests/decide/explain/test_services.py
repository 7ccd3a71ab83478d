"""A Service of type LoadBalancer is explained by its address, endpoints, gateways and announcements."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.explanations import Explanation
from tarmac.api.egress.names import ANNOTATION_NODE_FACTS
from tarmac.api.egress.nodefacts import NodeFacts, OutsideInterface, write_facts
from tarmac.decide import reasons
from tarmac.decide.explain import EXPLAINERS
from tarmac.decide.snapshot.egressobjects import NAMESPACES, SERVICES, SLICES
from tarmac.decide.snapshot.ingressobjects import ADDRESS_POOLS, PUBLIC_ADDRESSES
from tarmac.decide.snapshot.snapshot import NODES

from .world import CITY, LOCATION, Scene, condition_of

ADDRESS = "192.0.2.10"


def put_service(scene: Scene, **spec: Any) -> None:
    own = {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}], "ipFamilies": ["IPv4"]}
    metadata = {"name": "web", "namespace": "default", "uid": "u1"}
    scene.put(SERVICES.resource, {"metadata": metadata, "spec": own | spec})


def put_pool(scene: Scene, **spec: Any) -> None:
    own = {"ranges": [{"cidr": "192.0.2.0/24"}], "allowedNamespaces": {"names": ["default"]}}
    scene.put(ADDRESS_POOLS.resource, {"metadata": {"name": "public"}, "spec": own | spec})


def put_address(scene: Scene, *nodes: dict[str, Any]) -> None:
    holder = {"kind": "Service", "namespace": "default", "name": "web", "uid": "u1"}
    spec = {"address": ADDRESS, "poolName": "public", "claimRef": holder, "candidates": [{"name": "dfw-0"}]}
    status = {"phase": "Bound", "nodes": list(nodes)}
    scene.put(PUBLIC_ADDRESSES.resource, {"metadata": {"name": ADDRESS}, "spec": spec, "status": status})


def put_node(scene: Scene, name: str, **labels: str) -> None:
    city = name.partition("-")[0]
    facts = write_facts(NodeFacts([OutsideInterface("outside0", ["192.0.2.200/24"])]))
    metadata = {
        "name": name,
        "labels": {LOCATION: city, CITY: city.upper(), **labels},
        "annotations": {ANNOTATION_NODE_FACTS: facts},
    }
    scene.put(NODES.resource, {"metadata": metadata, "status": {"conditions": [condition_of("Ready", True, "R")]}})


def put_endpoints(scene: Scene, *nodes: str) -> None:
    labels = {"kubernetes.io/service-name": "web"}
    endpoints = [{"addresses": ["10.0.0.5"], "nodeName": node, "conditions": {"ready": True}} for node in nodes]
    metadata = {"name": "web-1", "namespace": "default", "labels": labels}
    scene.put(SLICES.resource, {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints})


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.put(NAMESPACES.resource, {"metadata": {"name": "default", "uid": "n1"}})
    put_service(made)
    return made


def why(scene: Scene) -> Explanation:
    found = EXPLAINERS[SERVICES.resource](scene.world, "default/web")
    assert found is not None
    return found


def told(found: Explanation) -> dict[str, tuple[str, str]]:
    """Return answer and reason by rule, the last of each."""
    return {line.rule: (line.answer, line.reason) for line in found.verdicts}


def test_a_service_of_another_type_asks_for_no_address(scene: Scene) -> None:
    put_service(scene, type="ClusterIP")
    assert why(scene).sentence == "Service default/web asks for no public address."
    assert EXPLAINERS[SERVICES.resource](scene.world, "default/none") is None


def test_without_a_pool_the_sentence_says_so(scene: Scene) -> None:
    found = why(scene)
    assert found.sentence.startswith("Service default/web holds no public address: ")
    assert reasons.NO_POOL in {line.reason for line in found.verdicts}
    assert found.change


def test_a_pool_that_does_not_allow_the_namespace_is_named(scene: Scene) -> None:
    put_pool(scene, allowedNamespaces={"names": ["other"]})
    put_service(scene)
    assert any(line.answer == "No" for line in why(scene).verdicts)


def test_an_address_that_is_announced_is_a_yes_in_every_line(scene: Scene) -> None:
    put_pool(scene)
    put_node(scene, "dfw-0", **{"submariner.io/gateway": "true"})
    put_endpoints(scene, "dfw-0", "dfw-0")
    put_address(scene, {"name": "dfw-0", "location": "dfw", "announcing": True, "via": "outside0"})
    found = why(scene)
    assert found.sentence == f"Service default/web holds {ADDRESS}."
    assert {line.answer for line in found.verdicts} == {"Yes"}
    said = {line.rule: line.message for line in found.verdicts}
    assert said["address"] == f"{ADDRESS} of AddressPool public is held."
    assert said["gateways"] == f"dfw-0 may own {ADDRESS}."
    assert said["endpoints"] == "2 endpoints ready."
    assert f"dfw-0 announces {ADDRESS} by outside0" in said["announced"]
    assert [line.city for line in found.verdicts if line.rule == "endpoints"] == ["DFW"]


@pytest.mark.parametrize("missing", ["endpoints", "gateway", "announcement"])
def test_the_missing_part_is_the_reason(scene: Scene, missing: str) -> None:
    put_pool(scene)
    put_node(scene, "dfw-0", **({} if missing == "gateway" else {"submariner.io/gateway": "true"}))
    put_endpoints(scene, *([] if missing == "endpoints" else ["dfw-0"]))
    reason = {"reason": "NoEndpoints"} if missing == "endpoints" else {}
    put_address(scene, {"name": "dfw-0", "announcing": False, **reason})
    found = why(scene)
    wanted = {"endpoints": "NoEndpoints", "gateway": "NoGateway", "announcement": "NotAnnounced"}[missing]
    assert wanted in {line.reason for line in found.verdicts if line.answer != "Yes"}
    assert found.sentence.startswith(f"Service default/web holds {ADDRESS}: ")
    if missing == "gateway":
        assert "submariner.io/gateway=true" in found.change


def test_source_ranges_are_shown(scene: Scene) -> None:
    put_pool(scene)
    put_service(scene, loadBalancerSourceRanges=["198.51.100.0/24"])
    put_address(scene)
    assert any("198.51.100.0/24" in line.message for line in why(scene).verdicts)
