"""Index of the addresses of nodes and API servers, from the store's events: a lookup does not scan nodes."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api.egress.nodefacts import interface_addresses, read_facts
from tarmac.api.partial import read_annotations
from tarmac.decide.addresses import NodeAddresses
from tarmac.decide.nodeaddresses import read_addresses
from tarmac.server.reader import Reader
from tarmac.store.interface import Entry, Event

_NODES, _SLICES = "core/nodes", "discovery.k8s.io/endpointslices"
_SERVER = "default/kubernetes"


class PlatformAddresses:
    """The index, loaded on first use."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._nodes: NodeAddresses | None = None

    def are_in(self, cidr: str) -> bool:
        """Return True if a range contains the address of a node or an API server."""
        if self._loaded().are_in(cidr):
            return True
        servers = NodeAddresses()
        found = self._reader.get(_SLICES, _SERVER) or {}
        servers.put("", [address for each in found.get("endpoints") or () for address in each["addresses"]])
        return servers.are_in(cidr)

    def _loaded(self) -> NodeAddresses:
        if self._nodes is None:
            self._nodes = NodeAddresses()
            self._reader.store.subscribe(_NODES, self._changed)
            for entry in self._reader.store.list(_NODES, "").entries:
                self._nodes.put(entry.name, _addresses(entry))
        return self._nodes

    def _changed(self, events: Sequence[Event]) -> None:
        assert self._nodes is not None, "they are subscribed to when they are loaded"
        for event in events:
            self._nodes.put(event.entry.name, _addresses(event.entry) if event.type != "DELETED" else ())


def _addresses(entry: Entry) -> list[str]:
    known = [each.address for each in read_addresses(entry.raw) if each.type in ("InternalIP", "ExternalIP")]
    facts = read_facts(read_annotations(entry.raw))
    return [*known, *(str(address) for _, address, _ in interface_addresses(facts))]
