"""Driver for any CRI runtime, containerd above all, over its unix socket."""

from __future__ import annotations

from tarmac.runtimes.cri.criruntime import CriRuntime

__all__ = ["CriRuntime"]
