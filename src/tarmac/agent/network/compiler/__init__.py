"""From API objects to what this node's networks should be. Pure, but for what the compiler remembers."""

from __future__ import annotations

from tarmac.agent.network.compiler.networks import Compiled, Compiler, Snapshot

__all__ = ["Compiled", "Compiler", "Snapshot"]
