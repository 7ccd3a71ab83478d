"""The state of the tunnels to other nodes, between the part that probes them and the part that reports it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TunnelState:
    """The condition `TunnelsReachable`: whether it holds, with reason and message."""

    reachable: bool
    reason: str
    message: str
