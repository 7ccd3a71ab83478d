"""NodeAddresses: what a node says about where it is reached is its own, whatever it would like.

Only entries that a write brings along are looked at: what is stored was looked at when it came. Who has which address
is known from the store's events, so a write costs no walk over all nodes. Two nodes that claim one free address in the
same instant may both be believed; the certificates controller looks again before either gets a certificate for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.decide.nodeaddresses import LABEL_CONTROL_PLANE, canonical, read_addresses, status_objection
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.admission.refusal import refuse
from tarmac.server.admission.serviceaddresses import RANGES
from tarmac.server.reader import Reader
from tarmac.server.security.nodeauthorizer import node_name
from tarmac.store.interface import Entry, Event

_NODES = "core/nodes"
_MOST = 64  # entries: each is compared with what others have


class NodeAddresses(Plugin):
    """Looks at what nodes write into their own `status.addresses`."""

    name = "NodeAddresses"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._holders: dict[str, set[str]] = {}  # address -> nodes that show it
        self._shown: dict[str, list[str]] = {}
        self._loaded = False

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _NODES and subresource in ("", "status") and operation in ("CREATE", "UPDATE")

    def validate(self, attributes: Attributes) -> None:
        node = node_name(attributes.user)
        if not node:
            return
        new = sorted(_entries(attributes.obj) - _entries(attributes.old))
        if not new:
            return
        if len(new) > _MOST:
            raise refuse(attributes, f'node "{node}" may not have more than {_MOST} addresses')
        self._load()
        holder = partial(self._holder, node, _labels(attributes.old))
        for kind, said in new:
            why = status_objection(node, kind, said, holder)
            if why is not None:
                raise refuse(attributes, f'node "{node}" may not claim this in status.addresses: {why}')

    def _holder(self, node: str, labels: dict[str, str], said: str) -> str | None:
        address = canonical(said)
        if address is None:
            return self._name_holder(node, said)
        if any(address in block for block in RANGES.values()):
            return "in the range of Services"
        if LABEL_CONTROL_PLANE not in labels and said in self._servers():
            return f"the API server's: if the node runs beside it, label the Node {LABEL_CONTROL_PLANE}="
        others = sorted(self._holders.get(said, set()) - {node})
        return f'that of node "{others[0]}": delete that Node if it is gone' if others else None

    def _name_holder(self, node: str, name: str) -> str | None:
        if name != node and self._reader.get(_NODES, name) is not None:
            return "another node's"
        service, _, namespace = name.partition(".")
        found = namespace and self._reader.get("core/services", f"{namespace}/{service}") is not None
        return f"that of Service {namespace}/{service}" if found else None

    def _servers(self) -> set[str]:
        """Where the servers of this store say they are."""
        known = self._reader.get("core/endpoints", "default/kubernetes") or {}
        return {each.get("ip", "") for part in known.get("subsets") or () for each in part.get("addresses") or ()}

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            self._reader.store.subscribe(_NODES, self._changed)
            for entry in self._reader.store.list(_NODES).entries:
                self._take(entry)

    def _changed(self, events: Sequence[Event]) -> None:
        for event in events:
            self._forget(event.entry.name)
            if event.type != "DELETED":
                self._take(event.entry)

    def _take(self, entry: Entry) -> None:
        shown = [str(canonical(each.address) or "") for each in read_addresses(entry.raw)]
        self._shown[entry.name] = shown
        for address in shown:
            self._holders.setdefault(address, set()).add(entry.name)

    def _forget(self, node: str) -> None:
        for address in self._shown.pop(node, ()):
            holders = self._holders.get(address)
            if holders is not None:
                holders.discard(node)
                if not holders:
                    del self._holders[address]


def _entries(node: JsonObject | None) -> set[tuple[str, str]]:
    addresses = ((node or {}).get("status") or {}).get("addresses") or ()
    return {(each.get("type", ""), each.get("address", "")) for each in addresses}


def _labels(node: JsonObject | None) -> dict[str, str]:
    return ((node or {}).get("metadata") or {}).get("labels") or {}
