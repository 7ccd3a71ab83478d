"""XIDs: the numbers by which NVIDIA's driver reports errors of a GPU.

An XID of an application's own mistake says nothing about the GPU, which serves the next container. Any other one, known
here or not, makes the GPU unhealthy.
"""

from __future__ import annotations

from typing import Final

APPLICATION: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Errors of the program that used the GPU."""
_MEANING: Final = {
    8: "GPU not accessible: command stopped responding", 13: "graphics engine exception", 31: "GPU memory page fault",
    32: "corrupted push buffer stream", 38: "driver firmware error", 43: "GPU stopped processing",
    45: "preemptive cleanup after previous errors", 48: "double-bit ECC error", 61: "internal micro-controller halt",
    62: "internal micro-controller halt", 63: "memory row remapping", 64: "memory row remapping failed",
    68: "video processor exception", 69: "graphics engine class error", 74: "NVLink error",
    79: "GPU has fallen off the bus", 92: "high rate of single-bit ECC errors", 94: "contained memory error",
    95: "uncontained memory error", 109: "context switch timeout", 119: "GSP RPC timeout", 120: "GSP error",
    140: "unrecovered ECC error", 143: "GPU initialization failure", 154: "GPU recovery action changed",
}  # fmt: skip
NOTICES: Final = frozenset({63, 154})
"""Reports of a repair, or of what to do: the recovery action itself tells if the GPU can be used."""


def meaning(xid: int) -> str:
    """Return what the number stands for."""
    return _MEANING.get(xid, "see NVIDIA's list of XID errors")


def reason_of(xid: int) -> str:
    """Return why a GPU is unhealthy after a critical XID."""
    return f"XID {xid}: {meaning(xid)}"


def is_critical(xid: int) -> bool:
    """Return True if the GPU cannot be trusted after this error."""
    return xid not in APPLICATION and xid not in NOTICES
