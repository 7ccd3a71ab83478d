"""The served resources of networking.datumapis.com: columns, subresources, rules."""

from __future__ import annotations

from dataclasses import replace

from tarmac.api.columns import AGE, NAME, column, computed, condition, join
from tarmac.api.declare import declare
from tarmac.api.networking.location import Location
from tarmac.api.networking.names import API_VERSION, TOPOLOGY_CITY_CODE, TOPOLOGY_REGION
from tarmac.api.networking.network import Network, NetworkBinding, NetworkContext, Subnet, SubnetClaim
from tarmac.api.networking.podendpoint import COLUMNS, SELECTABLE, PodEndpoint, PodEndpointStrategy
from tarmac.api.networking.policy import NetworkPolicy
from tarmac.api.networking.strategies import (
    BINDING,
    CLAIM,
    CONTEXT,
    SUBNET,
    LocationStrategy,
    NetworkStrategy,
    OwnNetworkPolicyStrategy,
)
from tarmac.api.networking.tunnelendpoint import COLUMNS as TUNNEL_COLUMNS
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.api.resource import Column, Resource, Strategy
from tarmac.api.schema import JsonObject

_READY = condition("Ready", "Ready", "Whether it is ready.")
_REASON = condition("Reason", "Ready", "Why it is, or is not.", field="reason")
_PLACE = column("Location", ".spec.location.name", "The place.")


def _topology(name: str, key: str, description: str) -> Column:
    def value(obj: JsonObject) -> str | None:
        return (obj.get("spec") or {}).get("topology", {}).get(key)

    return computed(name, value, ".spec.topology." + key.replace(".", r"\."), description)


_LOCATION_COLUMNS = (
    NAME,
    column("Class", ".spec.locationClassName", "The operator of the Location."),
    _topology("City", TOPOLOGY_CITY_CODE, "IATA code of the city."),
    _topology("Region", TOPOLOGY_REGION, "The region."),
    column("Nodes", ".status.nodes", "Nodes that belong to it.", type="integer"),
    _READY,
    _REASON,
    AGE,
)
_NETWORK_COLUMNS = (
    NAME,
    join("Families", ".spec.ipFamilies[*]", "Address families."),
    _READY,
    _REASON,
    AGE,
    column("IPv4", ".status.ipv4Range", "IPv4 range in use.", wide=True),
    column("IPv6", ".status.ipv6Range", "IPv6 range in use.", wide=True),
    column("MTU", ".spec.mtu", "Largest packet.", type="integer", wide=True),
    column("VNI", ".status.vni", "Number on the wire.", type="integer", wide=True),
)
_ATTACHMENT_COLUMNS = (NAME, column("Network", ".spec.network.name", "The network."), _PLACE, _READY, _REASON, AGE)
_SUBNET_COLUMNS = (
    NAME,
    column("Class", ".spec.subnetClass", "Kind of subnet."),
    column("Family", ".spec.ipFamily", "Address family."),
    column("Start", ".status.startAddress", "First address."),
    column("Prefix", ".status.prefixLength", "Size.", type="integer"),
    _READY,
    AGE,
    _PLACE,
)
_POLICY_COLUMNS = (NAME, column("Network", ".spec.network", "Only on this network."), AGE)


def resources() -> tuple[Resource, ...]:
    """Return the served resources of the group."""
    return (
        declare(
            Location,
            API_VERSION,
            "locations",
            strategy=LocationStrategy(),
            columns=_LOCATION_COLUMNS,
            short_names=("loc",),
            namespaced=False,
        ),
        declare(
            Network,
            API_VERSION,
            "networks",
            strategy=NetworkStrategy(),
            columns=_NETWORK_COLUMNS,
            short_names=("net",),
        ),
        declare(
            NetworkContext,
            API_VERSION,
            "networkcontexts",
            strategy=CONTEXT,
            columns=_ATTACHMENT_COLUMNS,
        ),
        declare(
            NetworkBinding,
            API_VERSION,
            "networkbindings",
            strategy=BINDING,
            columns=_ATTACHMENT_COLUMNS,
        ),
        declare(
            NetworkPolicy,
            API_VERSION,
            "networkpolicies",
            strategy=OwnNetworkPolicyStrategy(),
            columns=_POLICY_COLUMNS,
        ),
        declare(SubnetClaim, API_VERSION, "subnetclaims", strategy=CLAIM, columns=_SUBNET_COLUMNS),
        declare(Subnet, API_VERSION, "subnets", strategy=SUBNET, columns=_SUBNET_COLUMNS),
        _pod_endpoints(),
        _tunnel_endpoints(),
    )


def _pod_endpoints() -> Resource:
    """Return PodEndpoints: read-only, and in no category, since they repeat Pods."""
    made = declare(
        PodEndpoint,
        API_VERSION,
        "podendpoints",
        strategy=PodEndpointStrategy(),
        columns=COLUMNS,
        selectable=SELECTABLE,
    )
    return replace(made, verbs=("get", "list", "watch"), subresources=(), categories=())


def _tunnel_endpoints() -> Resource:
    """Return TunnelEndpoints: read-only, and in no category, since they repeat a part of each Node."""
    made = declare(
        TunnelEndpoint, API_VERSION, "tunnelendpoints", strategy=Strategy(), columns=TUNNEL_COLUMNS, namespaced=False
    )
    return replace(made, verbs=("get", "list", "watch"), subresources=(), categories=())
