"""The error for a peer that violates a protocol."""

from __future__ import annotations


class ProtocolViolation(ValueError):
    """The peer violates the protocol or a limit. The connection must be closed."""
