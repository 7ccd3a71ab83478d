"""NetworkRanges: no Network is made whose range holds the address of a node, or of the API server.

Which addresses those are is known from the store's events. A node that comes later is seen by the controller of
networks, which then refuses to attach anything more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tarmac.api.kubernetes.checks import mapping
from tarmac.api.resource import Resource
from tarmac.api.status import invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.decide.addresses import NodeAddresses
from tarmac.decide.nodeaddresses import read_addresses
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.reader import Reader
from tarmac.store.interface import Entry, Event

_BUCKET, _NODES, _SLICES = "networking.datumapis.com/networks", "core/nodes", "discovery.k8s.io/endpointslices"
_SERVER = "default/kubernetes"


class NetworkRanges(Plugin):
    """Refuses a Network when it is made; its ranges cannot be changed later."""

    name = "NetworkRanges"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._nodes: NodeAddresses | None = None

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _BUCKET and subresource == "" and operation == "CREATE"

    def validate(self, attributes: Attributes) -> None:
        """Both ranges, if they are given."""
        errors, ipam = FieldErrors(), mapping(attributes.obj, "spec", "ipam")
        given = [(field, ipam[field]) for field in ("ipv4Range", "ipv6Range") if ipam.get(field)]
        server = NodeAddresses()
        if given:
            server.put("server", self._server_addresses())
        for field, wanted in given:
            if self._loaded().are_in(wanted) or server.are_in(wanted):
                detail = "must not hold the address of a node or of the API server: use a range that they are not in"
                errors.invalid(f"spec.ipam.{field}", wanted, detail)
        if errors:
            raise invalid(attributes.resource.group, attributes.resource.kind, attributes.name, errors)

    def _server_addresses(self) -> Iterable[str]:
        found = self._reader.get(_SLICES, _SERVER) or {}
        return [address for endpoint in found.get("endpoints") or () for address in endpoint["addresses"]]

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
    return [each.address for each in read_addresses(entry.raw) if each.type in ("InternalIP", "ExternalIP")]
