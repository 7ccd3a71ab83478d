"""Interfaces in an Instance's status: from its annotation, or its Pod's addresses where another CNI connects Pods.

A Pod on our Networks has the addresses of its annotation. A Pod that reports different ones is connected by the
cluster's own CNI: then only those are shown, on the first interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import msgspec

from tarmac.api.compute.instance import Instance, InterfaceAddress, InterfaceAssignments, InterfaceStatus
from tarmac.api.networking.interfaces import AttachedInterface, decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES


def interfaces_of(instance: Instance, pod: Sequence[str], *, networked: bool = True) -> list[InterfaceStatus]:
    """Return the interfaces for the status, given the addresses that the Pod reports; empty while there are none."""
    given = [_status(interface) for interface in _attached(instance)]
    held = {address.address.partition("/")[0] for each in given for address in each.addresses}
    if networked and (not pod or not held.isdisjoint(pod)):
        return given
    if not pod:
        return []
    named = instance.spec.network_interfaces
    return [_of_others(named[0].name if named else "eth0", pod)]


def _attached(instance: Instance) -> list[AttachedInterface]:
    text = instance.metadata.annotations.get(ANNOTATION_INTERFACES, "")
    try:
        return decode_interfaces(text) if text else []
    except msgspec.MsgspecError:
        return []


def _of_others(name: str, addresses: Sequence[str]) -> InterfaceStatus:
    """Return the interface with /32 or /128 addresses: the size of a foreign CNI's subnets is unknown."""
    shown = [
        InterfaceAddress("IPv6", f"{each}/128") if ":" in each else InterfaceAddress("IPv4", f"{each}/32")
        for each in addresses
    ]
    return InterfaceStatus(name=name, assignments=InterfaceAssignments(network_ip=addresses[0]), addresses=shown)


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
