"""What candidates, holders and voters say to each other, and what they ask of the node they are on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ask:
    """A candidate or holder asks for a promise; `nonce` comes back with the answer and stands for when it was sent."""

    address: str
    epoch: int
    nonce: int


@dataclass(frozen=True, slots=True)
class Grant:
    """A voter has promised."""

    address: str
    epoch: int
    nonce: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """A voter has not promised; `epoch` is the highest that it knows."""

    address: str
    epoch: int
    nonce: int


@dataclass(frozen=True, slots=True)
class Release:
    """A holder or candidate gives its promises of this epoch back."""

    address: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Vacant:
    """A voter tells a candidate that it has promised the address to nobody."""

    address: str
    epoch: int


Message = Ask | Grant | Refuse | Release | Vacant


@dataclass(frozen=True, slots=True)
class Follow:
    """A node sends by the address, and knows its owner by this epoch; 0 while it knows of none."""

    address: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Announced:
    """The sender carries the address, since it won this epoch."""

    address: str
    epoch: int


Word = Message | Follow | Announced
"""Whatever one node says to another."""


@dataclass(frozen=True, slots=True)
class Send:
    """A message for another node, or for the voter on one's own."""

    to: str
    message: Message


@dataclass(frozen=True, slots=True)
class Probe:
    """Look on the wire whether a stranger has the address; the answer goes to `Candidate.probed`."""

    address: str


@dataclass(frozen=True, slots=True)
class Own:
    """Carry the address, announce it with the epoch, and go silent at `until` unless it is renewed.

    Whoever carries it out must see to it that the kernel goes silent by `until` on this clock: what is left is worked
    out again right before the kernel is told, since the node may have stood still in between.
    """

    address: str
    epoch: int
    until: float


@dataclass(frozen=True, slots=True)
class Renew:
    """Go silent only at `until`."""

    address: str
    until: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Stop carrying the address, before anything that follows is sent."""

    address: str


Effect = Send | Probe | Own | Renew | Drop
