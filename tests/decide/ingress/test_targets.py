"""The nodes that receive connections from a gateway, and the conditions of its announcements."""

from __future__ import annotations

import pytest

from tarmac.decide import reasons
from tarmac.decide.ingress.targets import (
    GatewayState,
    IngressEndpoint,
    Leads,
    ingress_endpoints,
    is_redirected,
    silence,
    weights,
)

DFW = [IngressEndpoint("dfw-0", "DFW"), IngressEndpoint("dfw-0", "DFW"), IngressEndpoint("dfw-1", "DFW")]
SEA = [IngressEndpoint("sea-0", "SEA")]
LHR = [IngressEndpoint("lhr-0", "LHR")]
GOING = IngressEndpoint("dfw-1", "DFW", ready=False, serving=True)
GONE = IngressEndpoint("dfw-2", "DFW", ready=False, serving=False)
DISTANCES = {"SEA": 0.04, "LHR": 0.1}


@pytest.mark.parametrize(
    ("leads", "endpoints", "expected"),
    [
        ("Cluster", [*DFW, *SEA], {"dfw-0": 2, "dfw-1": 1}),
        ("Cluster", [*SEA, *LHR], {"sea-0": 1}),
        ("Anycast", [*LHR, *SEA, GONE], {"sea-0": 1}),
        ("Local", [*DFW, *SEA], {"dfw-0": 2}),
        ("Local", SEA, {}),
        ("Cluster", [GOING, GONE], {"dfw-1": 1}),
        ("Cluster", [GOING, *SEA], {"sea-0": 1}),
        ("Cluster", [GONE], {}),
    ],
)
def test_a_gateway_prefers_its_city_and_then_the_nearest(
    leads: Leads, endpoints: list[IngressEndpoint], expected: dict[str, int]
) -> None:
    assert weights(leads, "dfw-0", "DFW", endpoints, lambda city: DISTANCES.get(city, 0)) == expected


def test_cities_at_the_same_distance_are_taken_by_name() -> None:
    assert weights("Cluster", "dfw-0", "DFW", [*SEA, *LHR]) == {"lhr-0": 1}


@pytest.mark.parametrize(
    ("leads", "gateway", "endpoints", "expected"),
    [
        ("Cluster", GatewayState("dfw-0", "DFW"), SEA, ""),
        ("Anycast", GatewayState("dfw-0", "DFW"), SEA, reasons.NO_READY_INSTANCE),
        ("Anycast", GatewayState("dfw-9", "DFW"), DFW, ""),
        ("Local", GatewayState("dfw-9", "DFW"), DFW, reasons.NO_ENDPOINTS),
        ("Local", GatewayState("dfw-1", "DFW"), DFW, ""),
        ("Cluster", GatewayState("dfw-0", "DFW"), [GONE], reasons.NO_ENDPOINTS),
        ("Cluster", GatewayState("dfw-0", "DFW", draining=True), DFW, reasons.DRAINING),
        ("Cluster", GatewayState("dfw-0", "DFW", programmed=False), DFW, reasons.PROGRAMMING),
        ("Cluster", GatewayState("dfw-0", "DFW", passed=False), DFW, reasons.SELF_TEST_FAILED),
        ("Cluster", GatewayState("dfw-0", "DFW", passed=False, alone=True), DFW, ""),
    ],
)
def test_a_gateway_announces_only_an_address_that_answers(
    leads: Leads, gateway: GatewayState, endpoints: list[IngressEndpoint], expected: str
) -> None:
    assert silence(leads, gateway, endpoints) == expected


def test_connections_to_another_city_are_redirected() -> None:
    assert is_redirected("DFW", {"sea-0": 1}, [*DFW, *SEA])
    assert not is_redirected("DFW", {"dfw-0": 1}, DFW)
    assert not is_redirected("DFW", {}, DFW)


def test_endpoints_of_slices_are_read_as_kubernetes_defines_them() -> None:
    endpoints = [
        {"addresses": ["10.0.0.1"], "nodeName": "dfw-0"},
        {"addresses": ["10.0.0.2"], "nodeName": "sea-0", "conditions": {"ready": False, "serving": True}},
        {"addresses": ["10.0.0.3"], "conditions": {"ready": True}},
        {"addresses": ["10.0.0.4"], "nodeName": "sea-0", "conditions": {"ready": False}},
    ]
    found = ingress_endpoints([{"endpoints": endpoints}, {"endpoints": None}], lambda node: node[:3].upper())
    assert [(each.node, each.city, each.ready, each.serving) for each in found] == [
        ("dfw-0", "DFW", True, True),
        ("sea-0", "SEA", False, True),
        ("sea-0", "SEA", False, False),
    ]
