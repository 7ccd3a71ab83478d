"""Compiles API objects into the desired state of this node's networks. Pure, except for the compiler's cache."""

from __future__ import annotations

from tarmac.agent.network.compiler.networks import Compiled, Compiler, Snapshot

__all__ = ["Compiled", "Compiler", "Snapshot"]
