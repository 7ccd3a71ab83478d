"""The interfaces of an Instance or Pod, with all data that a node needs to create them, as one annotation.

The annotation is the record of an allocated address: it is written before the pod can start, together with the change
that allows the start, and the address is free again when no object carries it any more. Status only repeats it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tarmac.api.declare import Struct
from tarmac.api.networking.policy import InterfacePolicy


class AttachedInterface(Struct):
    """One interface. Addresses carry the prefix length of their subnet; gateways are in the same order.

    Routes are destinations beyond the subnets, each through the gateway of its family.
    """

    name: str
    network: str  # namespace/name
    vni: int = 0
    mtu: int = 0
    mac: str = ""
    addresses: list[str] = []
    gateways: list[str] = []
    routes: list[str] = []
    policy: InterfacePolicy | None = None


_decode = msgspec.json.Decoder(list[AttachedInterface]).decode


def encode_interfaces(interfaces: Sequence[AttachedInterface]) -> str:
    """Return the annotation's value."""
    return msgspec.json.encode(interfaces, enc_hook=str).decode()


def decode_interfaces(text: str) -> list[AttachedInterface]:
    """Return the interfaces in an annotation. Raises msgspec.ValidationError."""
    return _decode(text)
