"""From API objects to what this node's networks should be. Pure."""

from __future__ import annotations

from tarmac.agent.network.compiling.networks import Snapshot, compile_networks, networks_on

__all__ = ["Snapshot", "compile_networks", "networks_on"]
