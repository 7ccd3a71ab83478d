"""Rules of addresses and ports of Services, as programmed into datapaths and used to answer reachability questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class PortRange:
    """Ports of one protocol, first to last; None means every port."""

    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Allowance:
    """Allowed traffic: with any of these peers, at any of these ports. None means all.

    `origin` names the policy rule in messages; it is ignored in comparisons, so equal allowances are programmed once.
    """

    peers: tuple[str, ...] | None = None  # CIDR ranges
    excluded: tuple[str, ...] = ()  # ranges within the peers that are excepted
    ports: tuple[PortRange, ...] | None = None
    origin: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """Allowed traffic of an address. None: not restricted; an empty tuple: nothing is allowed."""

    ingress: tuple[Allowance, ...] | None = None
    egress: tuple[Allowance, ...] | None = None


@dataclass(frozen=True, slots=True)
class ServiceFrontend:
    """A cluster address and port with its backends. `affinity` in seconds, 0 for none."""

    address: str
    protocol: Literal["TCP", "UDP", "SCTP"]
    port: int
    backends: tuple[tuple[str, int], ...]
    affinity: int = 0
