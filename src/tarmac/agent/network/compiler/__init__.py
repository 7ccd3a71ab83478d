"""Compiles API objects into the desired state of this node's networks. Pure, except for the compiler's cache."""

from __future__ import annotations

from tarmac.agent.network.compiler.networks import CompiledNetworks, NetworkCompiler, NetworkSnapshot

__all__ = ["CompiledNetworks", "NetworkCompiler", "NetworkSnapshot"]
