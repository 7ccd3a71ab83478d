"""What an address may take part in, and where Services lead: what datapaths make, and questions are answered from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of one protocol, first to last; None means every port."""

    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Allowance:
    """Traffic that may pass: with any of these peers, at any of these ports. None means all.

    `origin` is the rule that says so, for people; to a datapath two that allow the same are one.
    """

    peers: tuple[str, ...] | None = None  # CIDR ranges
    excluded: tuple[str, ...] = ()  # ranges within the peers that are not meant
    ports: tuple[Ports, ...] | None = None
    origin: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """What an address may take part in. None: not restricted; an empty tuple: nothing."""

    ingress: tuple[Allowance, ...] | None = None
    egress: tuple[Allowance, ...] | None = None


@dataclass(frozen=True, slots=True)
class ServicePort:
    """A cluster address and port, and who answers there. `affinity` in seconds, 0 for none."""

    address: str
    protocol: Literal["TCP", "UDP", "SCTP"]
    port: int
    backends: tuple[tuple[str, int], ...]
    affinity: int = 0
