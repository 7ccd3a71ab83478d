"""Messages between candidates, holders, voters and followers, and the effects requested of the local node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ask:
    """Request of a candidate or holder for a promise; the response repeats `nonce`, which identifies the send time."""

    address: str
    epoch: int
    nonce: int


@dataclass(frozen=True, slots=True)
class Grant:
    """A voter's promise."""

    address: str
    epoch: int
    nonce: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """A voter's rejection; `epoch` is the highest that it knows."""

    address: str
    epoch: int
    nonce: int


@dataclass(frozen=True, slots=True)
class Release:
    """A holder or candidate releases its promises of this epoch."""

    address: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Vacant:
    """A voter tells a candidate that the address is not promised to any node."""

    address: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Renewal:
    """Request of a holder to renew all of a voter's promises to it; `digest` is that of the holder's set."""

    digest: int
    nonce: int


@dataclass(frozen=True, slots=True)
class Renewed:
    """A voter has renewed the whole set."""

    digest: int
    nonce: int


@dataclass(frozen=True, slots=True)
class Unlisted:
    """The voter has a different set, or has just restarted: the holder must request each address separately."""

    digest: int
    nonce: int


Message = Ask | Grant | Refuse | Release | Vacant


@dataclass(frozen=True, slots=True)
class Follow:
    """A node routes through the address and knows its owner as of this epoch; 0 while it knows of none."""

    address: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Announced:
    """The sender owns the address since it won this epoch."""

    address: str
    epoch: int


Word = Message | Follow | Announced
"""A message between nodes about one address."""

Together = Renewal | Renewed | Unlisted
"""A message between nodes about many addresses."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to a remote node, or to the local voter."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class AddressProbe:
    """Probe the wire for a foreign host with the address; pass the result to `Candidate.probed`."""

    address: str


@dataclass(frozen=True, slots=True)
class Own:
    """Carry the address, announce it with the epoch, and go silent at `until` unless it is renewed.

    The executor must ensure that the kernel goes silent by `until` on this clock. Compute the remaining time right
    before configuring the kernel: the node may have been paused in between.
    """

    address: str
    epoch: int
    until: float


@dataclass(frozen=True, slots=True)
class Renew:
    """Extend the deadline: go silent only at `until`."""

    address: str
    until: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Stop carrying the address before the effects that follow are executed: a Release must not precede it."""

    address: str


Effect = Send | AddressProbe | Own | Renew | Drop
