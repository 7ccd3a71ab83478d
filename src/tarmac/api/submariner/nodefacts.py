"""What an agent says on its Node about its part in external services, in the annotation `submariner.io/node-facts`.

It is a node's own word, so it is read with care: text that is no such JSON says nothing, and a node that says nothing
has no datapath for external services.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_interface
from typing import Literal

import msgspec

from tarmac.api.submariner.names import ANNOTATION_NODE_FACTS, Address

Encryption = Literal["kernel", "userspace", "none", "off"]
_LONGEST = 16 * 1024
_MOST_ADDRESSES = 256


class OutsideInterface(msgspec.Struct, rename="camel", omit_defaults=True):
    """An interface of the node, with its addresses and their prefix lengths."""

    name: str
    addresses: list[str] = []


class NodeFacts(msgspec.Struct, rename="camel", omit_defaults=True):
    """What the node has and can do; tried by its agent, not assumed.

    `encryption` of tunnels between cities: by the kernel, by a program, not possible, or not wanted (`off`).
    """

    interfaces: list[OutsideInterface] = []
    encryption: Encryption = "none"
    state_sync: bool = False
    public_key: str = ""


_decode = msgspec.json.Decoder(NodeFacts).decode


@lru_cache(maxsize=1 << 12)
def _read(text: str) -> NodeFacts | None:
    try:
        return _decode(text) if len(text) <= _LONGEST else None
    except msgspec.DecodeError:
        return None


def read_facts(annotations: Mapping[str, str]) -> NodeFacts | None:
    """What a Node's annotations say; None when nothing that can be read."""
    text = annotations.get(ANNOTATION_NODE_FACTS)
    return _read(text) if text else None


def write_facts(facts: NodeFacts) -> str:
    """The text of the annotation."""
    return msgspec.json.encode(facts).decode()


def interface_addresses(facts: NodeFacts | None) -> list[tuple[str, Address, int]]:
    """Every readable address, with its interface and prefix length."""
    found: list[tuple[str, Address, int]] = []
    for interface in facts.interfaces if facts is not None else ():
        for written in interface.addresses[: _MOST_ADDRESSES - len(found)]:
            try:
                parsed = ip_interface(written)
            except ValueError:
                continue
            found.append((interface.name, parsed.ip, parsed.network.prefixlen))
    return found
