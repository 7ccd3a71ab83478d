"""Endpoints behind a public address: the nodes that a gateway sends connections to, and if it announces the address.

A gateway prefers endpoints of its own city, and without any there the nearest other city. With the traffic policy Local
it has only its own endpoints. Weights count endpoints, and `slots` turns them into shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tarmac.api.schema import JsonObject
from tarmac.decide import reasons

Leads = Literal["Cluster", "Local", "Anycast"]
"""The traffic policy of a Service; of a Workload `Anycast`: only gateways of cities with an endpoint announce."""

LOCAL: Leads = "Local"
ANYCAST: Leads = "Anycast"


@dataclass(frozen=True, slots=True)
class IngressEndpoint:
    """An endpoint by its node and city. `serving`: it answers, although it may be terminating."""

    node: str
    city: str
    ready: bool = True
    serving: bool = True


@dataclass(frozen=True, slots=True)
class GatewayState:
    """A gateway of an address. `passed`: its own connection to the address succeeded, or needs no test."""

    node: str
    city: str
    draining: bool = False
    programmed: bool = True
    passed: bool = True
    alone: bool = False  # the connections of no other gateway succeed


def ingress_endpoints(slices: Iterable[JsonObject], city_of: Callable[[str], str]) -> list[IngressEndpoint]:
    """Return the endpoints in slices that are on a node. `city_of` returns the city of a node by name."""
    found: list[IngressEndpoint] = []
    for each in slices:
        for endpoint in each.get("endpoints") or ():
            node, conditions = endpoint.get("nodeName") or "", endpoint.get("conditions") or {}
            if node:
                ready, serving = conditions.get("ready") is not False, conditions.get("serving")
                found.append(IngressEndpoint(node, city_of(node), ready, ready if serving is None else serving))
    return found


def usable(endpoints: Sequence[IngressEndpoint]) -> list[IngressEndpoint]:
    """Return the ready endpoints; without any, those that serve while they terminate."""
    return [each for each in endpoints if each.ready] or [each for each in endpoints if each.serving]


def weights(
    leads: Leads,
    node: str,
    city: str,
    endpoints: Sequence[IngressEndpoint],
    distance: Callable[[str], float] = lambda _: 0.0,
) -> dict[str, int]:
    """Return the number of endpoints by node that a gateway sends connections to.

    `distance` of a city from the gateway's is a round trip; equal ones are taken in the order of their names.
    """
    able = usable(endpoints)
    if leads == LOCAL:
        able = [each for each in able if each.node == node]
    else:
        # A gateway that is still asked after the last endpoint of its city went carries connections to the nearest
        # other city, so that a route which converges late loses nothing.
        cities = {each.city for each in able}
        nearest = city if city in cities else min(cities, key=lambda each: (distance(each), each), default="")
        able = [each for each in able if each.city == nearest]
    found: dict[str, int] = {}
    for each in able:
        found[each.node] = found.get(each.node, 0) + 1
    return found


def silence(leads: Leads, gateway: GatewayState, endpoints: Sequence[IngressEndpoint]) -> str:
    """Return the reason why a gateway does not announce an address; empty if it does."""
    if gateway.draining:
        return reasons.DRAINING
    able = usable(endpoints)
    if leads == LOCAL:
        able = [each for each in able if each.node == gateway.node]
    elif leads == ANYCAST:
        able = [each for each in able if each.city == gateway.city]
    if not able:
        return reasons.NO_READY_INSTANCE if leads == ANYCAST else reasons.NO_ENDPOINTS
    return untested(gateway)


def untested(gateway: GatewayState) -> str:
    """Return the reason why a gateway with endpoints does not announce yet, or any more; empty if it does."""
    if not gateway.programmed:
        return reasons.PROGRAMMING
    # The last gateway goes on: a test that fails by mistake everywhere must not take the address down.
    if not gateway.passed and not gateway.alone:
        return reasons.SELF_TEST_FAILED
    return ""


def is_redirected(city: str, chosen: Mapping[str, int], endpoints: Sequence[IngressEndpoint]) -> bool:
    """Return True if a gateway sends connections to another city."""
    return bool(chosen) and not any(each.city == city and each.node in chosen for each in endpoints)
