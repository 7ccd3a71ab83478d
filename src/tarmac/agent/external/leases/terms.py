"""What the thread of leases has to know about one address, read from its Gateway."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tarmac.api.submariner.relays import Gateway, GatewayNode

KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a message is from or for: the address it travels by, and the key that it is known by."""

    address: str
    key: bytes


@dataclass(frozen=True, slots=True)
class Terms:
    """One address. `carriable`: this node has all that it needs to carry it; `follows`: it sends by it.

    `senders` are the addresses of nodes that send by it. `epoch` and `owner` are what the Gateway's status says.
    """

    address: str
    candidates: dict[str, Identity]
    voters: dict[str, Identity]
    senders: frozenset[str] = frozenset()
    carriable: bool = False
    follows: bool = False
    epoch: int = 0
    owner: str = ""
    quiet: bool = False
    """Nothing is announced on the segment: others lead packets here."""

    def names(self) -> dict[Identity, str]:
        """Candidates and voters by identity. Both parts count: a node may claim another's key, or address."""
        named = [*self.candidates.items(), *self.voters.items()]
        return {identity: name for name, identity in reversed(named)}  # the first of a name counts

    def identity(self, name: str) -> Identity | None:
        """Where a candidate or voter is reached; None when nobody is named so, or it has said no key."""
        known = self.candidates.get(name) or self.voters.get(name)
        return known if known is not None and known.key else None


def terms_of(gateway: Gateway, *, node: str, carriable: bool, follows: bool) -> Terms:
    """The terms of a Gateway for a node."""
    spec = gateway.spec
    said = [each for each in (gateway.status.nodes if gateway.status is not None else ()) if each.epoch > 0]
    last = max(said, key=lambda each: each.epoch, default=None)
    return Terms(
        address=spec.gateway_ip,
        candidates=_identities(spec.candidates),
        voters=_identities(spec.voters),
        senders=frozenset(rule.forwarder_ip for rule in (*spec.egress_rules, *spec.ingress_rules)),
        carriable=carriable and any(each.name == node for each in spec.candidates),
        follows=follows,
        epoch=last.epoch if last is not None else 0,
        owner=last.name if last is not None and last.owner else "",
        quiet=spec.announce == "routed",
    )


def _identities(nodes: Iterable[GatewayNode]) -> dict[str, Identity]:
    return {each.name: Identity(each.address, read_key(each.public_key)) for each in nodes}


def read_key(text: str) -> bytes:
    """A public key as nodes write it; empty when it is none."""
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return key if len(key) == KEY_BYTES else b""


def write_key(key: bytes) -> str:
    """A public key as text."""
    return base64.b64encode(key).decode()
