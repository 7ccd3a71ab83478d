"""Capabilities of a node for external services, in the annotation `submariner.io/node-facts` written by its agent.

The server does not trust the text: an unreadable annotation counts as missing, and a node without one has no datapath
for external services.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_interface
from typing import Literal

import msgspec

from tarmac.api.egress.names import ANNOTATION_NODE_FACTS, Address

Encryption = Literal["kernel", "userspace", "none", "off"]
_MAX_TEXT = 16 * 1024
_MAX_ADDRESSES = 256
_MAX_STATED = 48  # the server accepts 64 addresses of a node, those of its status included


class OutsideInterface(msgspec.Struct, rename="camel", omit_defaults=True):
    """An interface of the node, with its addresses and their prefix lengths."""

    name: str
    addresses: list[str] = []


class NodeFacts(msgspec.Struct, rename="camel", omit_defaults=True):
    """Capabilities of the node, tested by its agent.

    `encryption` of tunnels between cities: by the kernel, by a program, not possible (`none`), or disabled (`off`).
    """

    interfaces: list[OutsideInterface] = []
    encryption: Encryption = "none"
    state_sync: bool = False
    public_key: str = ""


_decode = msgspec.json.Decoder(NodeFacts).decode


@lru_cache(maxsize=1 << 12)
def _read(text: str) -> NodeFacts | None:
    try:
        return _decode(text) if len(text) <= _MAX_TEXT else None
    except msgspec.DecodeError:
        return None


def read_facts(annotations: Mapping[str, str]) -> NodeFacts | None:
    """Return the facts in a Node's annotations; None if they are missing or unreadable."""
    text = annotations.get(ANNOTATION_NODE_FACTS)
    return _read(text) if text else None


def write_facts(facts: NodeFacts) -> str:
    """Return the text of the annotation, with the first addresses only if there are many."""
    interfaces: list[OutsideInterface] = []
    left = _MAX_STATED
    for each in facts.interfaces:
        interfaces.append(OutsideInterface(each.name, each.addresses[:left]))
        left -= len(interfaces[-1].addresses)
    return msgspec.json.encode(msgspec.structs.replace(facts, interfaces=interfaces)).decode()


def interface_addresses(facts: NodeFacts | None) -> list[tuple[str, Address, int]]:
    """Return every readable address, with its interface and prefix length."""
    found: list[tuple[str, Address, int]] = []
    for interface in facts.interfaces if facts is not None else ():
        for written in interface.addresses[: _MAX_ADDRESSES - len(found)]:
            try:
                parsed = ip_interface(written)
            except ValueError:
                continue
            found.append((interface.name, parsed.ip, parsed.network.prefixlen))
    return found
