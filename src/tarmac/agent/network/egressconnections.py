"""Reports the live connections of an ExternalService on this node: those of its pods, and those under its addresses.

The kernel knows addresses and ports; Forwarders map them to pods and Gateways to ExternalServices. A transit address
identifies one ExternalService, node, Network and SourceIP, so it distinguishes pods with equal addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from tarmac.agent.sources.forwarders import all_gateways, own_forwarders
from tarmac.api.egress.connections import (
    MAX_CONNECTIONS,
    CarriedConnection,
    ForwardedConnection,
    NodeConnections,
)
from tarmac.api.egress.forwarding import Forwarder, Gateway
from tarmac.api.egress.names import NAMESPACE, forwarder_name
from tarmac.api.schema import JsonObject
from tarmac.api.shared import Protocol
from tarmac.client.cache import Item
from tarmac.client.informer import Informers
from tarmac.datapath.egress import EgressDatapath, TranslatedConnection

_BY_SERVICE = "external service"


class _Pod(NamedTuple):
    name: str  # namespace/name
    uid: str


class LocalExternalConnections:
    """Connections of one node."""

    def __init__(
        self,
        informers: Informers,
        node: str,
        datapath: EgressDatapath,
        pods: Callable[[], Iterable[JsonObject]],
    ) -> None:
        self._node, self._datapath, self._pods = node, datapath, pods
        self._forwarders, self._gateways = own_forwarders(informers, node), all_gateways(informers)
        self._gateways.add_index(_BY_SERVICE, _services)

    async def of(self, namespace: str, name: str) -> NodeConnections:
        """Return those of one ExternalService, at most `MAX_CONNECTIONS` of either sort."""
        forwarder = self._forwarders.get(f"{NAMESPACE}/{forwarder_name(namespace, name, self._node)}")
        gateways = [each.object for each in self._gateways.indexed(_BY_SERVICE, f"{namespace}.{name}")]
        whose = dict(self._whose(forwarder)) if forwarder is not None else {}
        carried = {transit for each in gateways for transit in _transits(each, f"{namespace}.{name}.")}
        transits = carried | {transit for transit, _ in whose}
        if not transits:
            return NodeConnections()
        # One more than is returned, to know if there are more.
        found = await self._datapath.connections(transits, MAX_CONNECTIONS + 1)
        out = [each for one in found.forwarded if (each := _forwarded(one, whose)) is not None]
        under = [each for one in found.carried if (each := _carried(one, carried)) is not None]
        more = max(len(out), len(under)) > MAX_CONNECTIONS
        return NodeConnections(out[:MAX_CONNECTIONS], under[:MAX_CONNECTIONS], more)

    def _whose(self, forwarder: Forwarder) -> Iterator[tuple[tuple[str, str], _Pod]]:
        """Yield pods of this node by transit address and their own."""
        own = {each["metadata"]["uid"]: each["metadata"] for each in self._pods()}
        spec = forwarder.spec
        ways = [(each, each.source_ip) for each in spec.egress_rules]
        ways += [(each, each.destination_ip) for each in spec.ingress_rules]
        for rule, address in ways:
            metadata = own.get(rule.pod)
            if metadata is not None:
                yield (rule.transit_ip, address), _Pod(f"{metadata['namespace']}/{metadata['name']}", rule.pod)


def _services(item: Item[Gateway]) -> set[str]:
    """Return the ExternalServices of a Gateway, as names of their Forwarders without the node."""
    spec = item.object.spec
    rules = (*spec.egress_rules, *spec.ingress_rules)
    return {rule.forwarder.name.rpartition(".")[0] for rule in rules if rule.forwarder is not None}


def _transits(gateway: Gateway, prefix: str) -> Iterator[str]:
    for rule in gateway.spec.egress_rules:
        if rule.forwarder is not None and rule.forwarder.name.startswith(prefix):
            yield rule.source_ip
    for rule in gateway.spec.ingress_rules:
        if rule.forwarder is not None and rule.forwarder.name.startswith(prefix):
            yield rule.destination_ip


def _forwarded(one: TranslatedConnection, whose: Mapping[tuple[str, str], _Pod]) -> ForwardedConnection | None:
    protocol = cast("Protocol", one.protocol)
    pod = whose.get((one.seen[0], one.source[0]))
    if pod is not None:
        out = (*one.meant, *one.answerer, *one.seen, one.bytes_out, one.bytes_in, one.since)
        return ForwardedConnection(*pod, protocol, "out", *out)
    pod = whose.get((one.meant[0], one.answerer[0]))
    if pod is not None:
        back = (*one.answerer, *one.source, *one.meant, one.bytes_in, one.bytes_out, one.since)
        return ForwardedConnection(*pod, protocol, "in", *back)
    return None


def _carried(one: TranslatedConnection, transits: set[str]) -> CarriedConnection | None:
    protocol = cast("Protocol", one.protocol)
    if one.source[0] in transits:
        return CarriedConnection(protocol, *one.source, *one.meant, *one.seen)
    if one.answerer[0] in transits:
        return CarriedConnection(protocol, *one.answerer, *one.source, *one.meant)
    return None
