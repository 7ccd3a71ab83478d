"""The interfaces of an Instance's status, repeated from the annotation that holds its addresses."""

from __future__ import annotations

from itertools import zip_longest

import msgspec

from tarmac.api.compute.instance import Instance, InterfaceAddress, InterfaceAssignments, InterfaceStatus
from tarmac.api.networking.interfaces import AttachedInterface, decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES


def interfaces_of(instance: Instance) -> list[InterfaceStatus]:
    """What status says; nothing while the Instance has no addresses."""
    text = instance.metadata.annotations.get(ANNOTATION_INTERFACES, "")
    try:
        return [_status(interface) for interface in decode_interfaces(text)] if text else []
    except msgspec.MsgspecError:
        return []


def _status(interface: AttachedInterface) -> InterfaceStatus:
    pairs = zip_longest(interface.addresses, interface.gateways[: len(interface.addresses)], fillvalue="")
    addresses = [InterfaceAddress("IPv6" if ":" in each else "IPv4", each, gateway) for each, gateway in pairs]
    first = interface.addresses[0].partition("/")[0] if interface.addresses else ""
    return InterfaceStatus(
        name=interface.name,
        assignments=InterfaceAssignments(network_ip=first) if first else None,
        addresses=addresses,
        mac_address=interface.mac,
    )
