"""Checks the interfaces of a pod that a node reports after a restore: its Networks and its addresses.

All nodes route by these annotations. A hostile node could otherwise have a pod adopted that takes over the address of a
different pod, or that joins the Network of a different tenant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_interface, ip_network

import msgspec

from tarmac.api.declare import decode
from tarmac.api.networking.interfaces import AttachedInterface, decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES, SYSTEM_PREFIX, pods_network
from tarmac.api.networking.network import Network
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.reader import Reader
from tarmac.server.reader import decode as decode_entry

_PODS = "core/pods"
_NETWORKS = "networking.datumapis.com/networks"
_FIELD = f"metadata.annotations[{ANNOTATION_INTERFACES}]"
_MAX_INTERFACES = 64


def check_interfaces(reader: Reader, pod: JsonObject, errors: FieldErrors) -> None:
    """Add an error for each interface that the store contradicts."""
    text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_INTERFACES)
    if text is None:
        return
    try:
        interfaces = decode_interfaces(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        errors.invalid(_FIELD, text[:200], f"cannot be read: {error}")
        return
    # The node chooses the number: each interface is compared with every Pod of the namespace.
    if len(interfaces) > _MAX_INTERFACES:
        errors.invalid(_FIELD, len(interfaces), f"must have at most {_MAX_INTERFACES} interfaces")
        return
    for each in interfaces:
        if why := _objection(reader, pod, each):
            errors.invalid(_FIELD, each.name, f"{why}, or end this one with `tarmac restored remove`")


def _objection(reader: Reader, pod: JsonObject, interface: AttachedInterface) -> str:
    namespace, name = pod["metadata"]["namespace"], interface.network
    if not name.startswith(f"{namespace}/") and name != pods_network(namespace):
        return f"Network {name} is not of the pod's namespace"
    found = reader.get(_NETWORKS, name)
    status = decode(Network, found).status if found is not None else None
    if status is None or status.vni != interface.vni:
        return f"Network {name} does not have the number {interface.vni}"
    blocks = [ip_network(each) for each in (status.ipv4_range, status.ipv6_range) if each]
    for address in interface.addresses:
        if not _is_within(address, blocks):
            return f"{address} is not an address of Network {name}"
        if holder := next(_holders(reader, pod, name, address), ""):
            return f"pod {holder} has the address {address} of Network {name}; delete that pod"
    return ""


def _is_within(text: str, blocks: Sequence[IPv4Network | IPv6Network]) -> bool:
    try:
        return any(ip_interface(text).ip in block for block in blocks)
    except ValueError:
        return False


def _holders(reader: Reader, pod: JsonObject, network: str, address: str) -> Iterator[str]:
    """Yield other pods with the address. Only entries that contain its text are decoded.

    An Instance without a pod does not count: after a restore, the address of an unknown running pod may have been
    promised to it.
    """
    own = pod["metadata"]
    key, wanted = f"{own['namespace']}/{own['name']}", ip_interface(address).ip
    prefix = SYSTEM_PREFIX if own["namespace"].startswith(SYSTEM_PREFIX) else f"{own['namespace']}/"
    text = address.partition("/")[0].encode()
    for entry in reader.store.list(_PODS, prefix).entries:
        # A byte search first: decoding every Pod of a namespace for each reported address would hold the event loop.
        if entry.name == key or text not in entry.raw:
            continue
        if any(each.network == network and _has(each, wanted) for each in _interfaces(decode_entry(entry))):
            yield entry.name


def _has(interface: AttachedInterface, address: IPv4Address | IPv6Address) -> bool:
    return any(ip_interface(each).ip == address for each in interface.addresses)


def _interfaces(obj: JsonObject) -> list[AttachedInterface]:
    text = (obj["metadata"].get("annotations") or {}).get(ANNOTATION_INTERFACES)
    return decode_interfaces(text) if text else []
