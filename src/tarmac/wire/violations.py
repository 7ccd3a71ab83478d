"""What a peer did wrong."""

from __future__ import annotations


class ProtocolViolation(ValueError):
    """The peer does not speak the protocol, or wants more than we give. Nothing can follow on this connection."""
