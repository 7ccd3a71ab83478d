"""The served resources for connections from outside: columns, subresources, rules."""

from __future__ import annotations

from tarmac.api.checks import mapping, objects
from tarmac.api.columns import AGE, NAME, column, computed, condition, join
from tarmac.api.compute.explanations import WHY
from tarmac.api.declare import declare
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.bgppeer import BGPPeer
from tarmac.api.ingress.names import API_VERSION
from tarmac.api.ingress.peerrules import BGPPeerStrategy
from tarmac.api.ingress.plans import PLAN
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.api.ingress.strategies import AddressPoolStrategy, PublicAddressStrategy
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject


def _ranges(obj: JsonObject) -> str:
    ranges = objects(mapping(obj, "spec"), "ranges")
    return ",".join(each.get("cidr") or f"{each.get('start')}-{each.get('end')}" for each in ranges)


def _announcement(obj: JsonObject) -> str:
    spec = mapping(obj, "spec")
    return spec.get("announce") or ("bgp" if spec.get("scope") == "Anycast" else "gratuitous")


def _holder(obj: JsonObject) -> str | None:
    holder = mapping(obj, "spec", "claimRef")
    if not holder:
        return None
    if not holder.get("name"):
        return f"{holder.get('namespace')}/*"
    return f"{holder.get('kind')}/{holder.get('namespace')}/{holder.get('name')}"


def _announced_from(obj: JsonObject) -> str:
    nodes = objects(mapping(obj, "status"), "nodes")
    return ",".join(sorted({each.get("location") or each["name"] for each in nodes if each.get("announcing")}))


_POOL_COLUMNS = (
    NAME,
    column("Scope", ".spec.scope", "Location or Anycast."),
    computed("Ranges", _ranges, ".spec.ranges[*].cidr", "The addresses."),
    computed("Announce", _announcement, ".spec.announce", "How the addresses are announced."),
    column("Bound", ".status.summary.bound", "Addresses in use.", type="integer"),
    column("Available", ".status.summary.available", "Addresses that are free.", type="integer"),
    condition("Ready", "Ready", "Whether a node can announce its addresses."),
    AGE,
    condition("Reason", "Ready", "Why it cannot, if so.", field="reason", wide=True),
    condition("Redundant", "Redundant", "Whether the loss of a gateway is survived.", wide=True),
    column("Reclaim", ".spec.reclaimPolicy", "Handling of a released address.", wide=True),
)
_ADDRESS_COLUMNS = (
    NAME,
    column("Pool", ".spec.poolName", "Its AddressPool."),
    computed("Holder", _holder, ".spec.claimRef.name", "The Service or Workload that holds it."),
    computed(
        "Announced-From",
        _announced_from,
        ".status.nodes[?(@.announcing==true)].location",
        "Locations whose nodes announce it.",
    ),
    column("Phase", ".status.phase", "State of the address."),
    AGE,
    column("Address", ".spec.address", "The address.", wide=True),
    condition("Reason", "Announced", "Why it is announced, or is not.", field="reason", wide=True),
)
_PEER_COLUMNS = (
    NAME,
    column("Address", ".spec.address", "Address of the router."),
    column("ASN", ".spec.asn", "Autonomous system of the router.", type="integer"),
    join("Nodes", ".status.nodes[*].name", "Nodes that report a session."),
    condition("Established", "Established", "Whether all sessions are established."),
    AGE,
    column("Local-ASN", ".spec.localASN", "Autonomous system of the nodes.", type="integer", wide=True),
    condition("Reason", "Established", "Why they are, or are not.", field="reason", wide=True),
)


def resources() -> tuple[Resource, ...]:
    """Return the served resources."""
    return (
        declare(
            AddressPool,
            API_VERSION,
            "addresspools",
            strategy=AddressPoolStrategy(),
            columns=_POOL_COLUMNS,
            short_names=("apool",),
            namespaced=False,
            subresources=(PLAN, WHY),
        ),
        declare(
            PublicAddress,
            API_VERSION,
            "publicaddresses",
            strategy=PublicAddressStrategy(),
            columns=_ADDRESS_COLUMNS,
            short_names=("pubip",),
            namespaced=False,
            subresources=(PLAN, WHY),
        ),
        declare(
            BGPPeer,
            API_VERSION,
            "bgppeers",
            strategy=BGPPeerStrategy(),
            columns=_PEER_COLUMNS,
            namespaced=False,
            subresources=(PLAN, WHY),
        ),
    )
