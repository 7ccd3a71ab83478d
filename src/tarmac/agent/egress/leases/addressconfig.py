"""Lease configuration of one SourceIP, read from its Gateway."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tarmac.api.egress.forwarding import Gateway, GatewayNode
from tarmac.decide.egress.lease.epochs import highest_epoch

KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """Sender or receiver of a message: the address of its datagrams and the public key that authenticates it."""

    address: str
    key: bytes


@dataclass(frozen=True, slots=True)
class AddressConfig:
    """Lease configuration of one SourceIP.

    `can_own`: this node has rules and an interface for it. `routes_through`: pods on this node send from it. `senders`
    are the addresses of the nodes with such pods. `epoch` and `owner` come from the Gateway's status.
    """

    address: str
    candidates: dict[str, PeerIdentity]
    voters: dict[str, PeerIdentity]
    senders: frozenset[str] = frozenset()
    can_own: bool = False
    routes_through: bool = False
    epoch: int = 0
    owner: str = ""
    quiet: bool = False
    """Nothing is announced on the segment: routers outside the cluster direct packets here."""

    def names(self) -> dict[PeerIdentity, str]:
        """Return names of candidates and voters by identity.

        Both parts count: a node may claim a peer's key or its address.
        """
        named = [*self.candidates.items(), *self.voters.items()]
        return {identity: name for name, identity in reversed(named)}  # the first identity of a name wins

    def identity(self, name: str) -> PeerIdentity | None:
        """Return the identity of a candidate or voter; None if the name is unknown or has no key."""
        known = self.candidates.get(name) or self.voters.get(name)
        return known if known is not None and known.key else None


def address_config(gateway: Gateway, *, node: str, can_own: bool, routes_through: bool, now: float) -> AddressConfig:
    """Return the lease configuration that a Gateway gives to a node.

    `now` is the Unix time: epochs that no address can have reached by then do not count.
    """
    spec, highest = gateway.spec, highest_epoch(now)
    nodes = gateway.status.nodes if gateway.status is not None else ()
    said = [each for each in nodes if 0 < each.epoch <= highest]
    last = max(said, key=lambda each: each.epoch, default=None)
    return AddressConfig(
        address=spec.gateway_ip,
        candidates=_identities(spec.candidates),
        voters=_identities(spec.voters),
        senders=frozenset(rule.forwarder_ip for rule in (*spec.egress_rules, *spec.ingress_rules)),
        can_own=can_own and any(each.name == node for each in spec.candidates),
        routes_through=routes_through,
        epoch=last.epoch if last is not None else 0,
        owner=last.name if last is not None and last.owner else "",
        quiet=spec.announce == "routed",
    )


def _identities(nodes: Iterable[GatewayNode]) -> dict[str, PeerIdentity]:
    return {each.name: PeerIdentity(each.address, read_key(each.public_key)) for each in nodes}


def read_key(text: str) -> bytes:
    """Decode a public key from the text that nodes publish; empty if it is invalid."""
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return key if len(key) == KEY_BYTES else b""


def write_key(key: bytes) -> str:
    """Encode a public key as text."""
    return base64.b64encode(key).decode()
