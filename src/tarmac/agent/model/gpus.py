"""If sandboxes can use the GPUs of a node, between the part that asks gVisor and the part that reports the result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuSandboxState:
    """The condition `GPUsSandboxable`, with reason and message."""

    sandboxable: bool
    reason: str
    message: str
