"""NodeAddresses: a node may claim only its own addresses and its own tunnel key.

A node reports addresses in `status.addresses`, and its agent in the annotation `submariner.io/node-facts`. Neither may
claim an address that tenants use (`tenantaddresses`).

Only entries added by a write are checked: stored ones were checked on arrival. The owner of each address is indexed
from the store's events, so a write does not scan all nodes. Two nodes that claim one free address at the same moment
may both be accepted; the certificates controller checks again before it issues a certificate for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tarmac.api.egress.names import ANNOTATION_NODE_FACTS, Address
from tarmac.api.egress.nodefacts import interface_addresses, read_facts
from tarmac.api.networking.tunnels import ANNOTATION_TUNNEL, read_tunnel
from tarmac.api.partial import read_annotations
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.decide.nodeaddresses import LABEL_CONTROL_PLANE, canonical, read_addresses, status_objection
from tarmac.server.admission.addresses.serviceaddresses import RANGES
from tarmac.server.admission.addresses.tenantaddresses import MAX_POOLED, TenantAddresses
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader
from tarmac.server.security.authorization.nodeauthorizer import node_name
from tarmac.store.interface import Entry, Event

_NODES = "core/nodes"
_STATUS, _FACTS = "status.addresses", f"metadata.annotations[{ANNOTATION_NODE_FACTS}]"
# Entries of the status, and addresses in total: each is compared with those of the other nodes, and new Networks and
# classes keep off it.
_MAX_ENTRIES = 64


class NodeAddressAdmission(AdmissionPlugin):
    """Checks the addresses, facts and tunnel key that nodes write into their own Node."""

    name = "NodeAddresses"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._tenants = TenantAddresses(reader)
        self._holders: dict[str, set[str]] = {}  # address or key -> nodes that report it
        self._shown: dict[str, list[str]] = {}
        self._loaded = False

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _NODES and subresource in ("", "status") and operation in ("CREATE", "UPDATE")

    def validate(self, attributes: Attributes) -> None:
        node = node_name(attributes.user)
        if not node:
            return
        self._check_tenants(node, attributes)
        self._check_key(attributes, node)
        new = sorted(_entries(attributes.obj) - _entries(attributes.old))
        if not new:
            return
        if len(_entries(attributes.obj)) > _MAX_ENTRIES:
            raise refuse(attributes, f'node "{node}" may not have more than {_MAX_ENTRIES} addresses')
        self._load()
        holder = partial(self._holder, node, _labels(attributes.old))
        for kind, said in new:
            why = status_objection(node, kind, said, holder)
            if why is not None:
                raise refuse(attributes, f'node "{node}" may not claim this in status.addresses: {why}')

    def _check_tenants(self, node: str, attributes: Attributes) -> None:
        # Before anything that reads other objects: agents write their status every few seconds.
        if _written(attributes.obj) == _written(attributes.old):  # true for nearly every write of a node
            return
        claimed, before = _claimed(attributes.obj), _claimed(attributes.old)
        for address, field in claimed.items():
            if address not in before and (service := self._tenants.service_to(address)):
                raise refuse(
                    attributes,
                    f'node "{node}" may not claim {address} in {field}: it is the target of ExternalService {service}; '
                    "if it is this node's, delete the ExternalService first",
                )
        if claimed.keys() <= before.keys():
            return
        if len(claimed) > _MAX_ENTRIES:
            limit = f"may not have more than {_MAX_ENTRIES} addresses"
            detail = f"{_STATUS} and {_FACTS} together {limit}, and have {len(claimed)}"
            raise refuse(attributes, f'node "{node}": {detail}')
        pooled = self._tenants.pooled(claimed)
        if len(pooled) > MAX_POOLED:
            address, name = next(iter(pooled.items()))
            raise refuse(
                attributes,
                f'node "{node}" claims {len(pooled)} addresses that classes and pools hand out, such as {address} of '
                f'"{name}": at most {MAX_POOLED} in {_STATUS} and {_FACTS} together; take ranges that the node has '
                "out of the class",
            )

    def _check_key(self, attributes: Attributes, node: str) -> None:
        """Reject the tunnel key of a different node.

        It would not redirect packets, but keep that node from getting any.
        """
        before = _tunnel_keys(_annotations(attributes.old))
        new = {key: said for key, said in _tunnel_keys(_annotations(attributes.obj)).items() if key not in before}
        if not new:
            return
        self._load()
        for key, annotation in new.items():
            others = sorted(self._holders.get(key, set()) - {node})
            if others:
                why = f'its key is that of node "{others[0]}": delete that Node if it is gone'
                raise refuse(attributes, f'node "{node}" may not publish this in annotation {annotation}: {why}')

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
        """Return the addresses of this store's API servers."""
        known = self._reader.get("core/endpoints", "default/kubernetes") or {}
        return {each.get("ip", "") for part in known.get("subsets") or () for each in part.get("addresses") or ()}

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            # Before the list, in the same turn of the loop: a claim in between would stay unknown until that node
            # reports again.
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
        shown += _tunnel_keys(read_annotations(entry.raw))
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


def _annotations(node: JsonObject | None) -> dict[str, str]:
    return ((node or {}).get("metadata") or {}).get("annotations") or {}


def _written(node: JsonObject | None) -> tuple[str | None, set[tuple[str, str]]]:
    return _annotations(node).get(ANNOTATION_NODE_FACTS), _entries(node)


def _claimed(node: JsonObject | None) -> dict[Address, str]:
    """Return every address that a Node reports, with the field that has it."""
    facts = read_facts(_annotations(node))
    found = {canonical(str(address)): _FACTS for _, address, _ in interface_addresses(facts)}
    found |= {canonical(said): _STATUS for kind, said in _entries(node) if kind in ("InternalIP", "ExternalIP")}
    return {address: field for address, field in found.items() if address is not None}


def _tunnel_keys(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of a Node with their annotations, each with a prefix, so that it never equals an address."""
    facts = read_facts(annotations)
    found = {
        facts.public_key if facts is not None else "": ANNOTATION_NODE_FACTS,
        read_tunnel(annotations.get(ANNOTATION_TUNNEL, "")).public_key: ANNOTATION_TUNNEL,
    }
    return {f"key {key}": annotation for key, annotation in found.items() if key}


def _labels(node: JsonObject | None) -> dict[str, str]:
    return ((node or {}).get("metadata") or {}).get("labels") or {}
