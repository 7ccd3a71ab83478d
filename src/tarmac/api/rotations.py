"""Rotation of cluster keys: the request to a server, and the annotation where servers and nodes report keys."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

ROTATIONS_PATH: Final = "/tarmac/v1/rotations/"
TRUSTS: Final = "tarmac.dev/trusts"
"""On a server's Lease and on a Node, space-separated: ids of the keys whose tokens are accepted, and words as below."""


def trusts_authority(key: str) -> str:
    """Return the word of a server or node that trusts certificates of this authority."""
    return f"ca:{key}"


def certified_by(key: str) -> str:
    """Return the word of a node that has a certificate of this authority."""
    return f"own:{key}"


def opens_with(key: str) -> str:
    """Return the word of a server that can decrypt with this key, now and after its next start."""
    return f"encryption:{key}"


def seals_with(key: str) -> str:
    """Return the word of a server that encrypts with this key."""
    return f"seals:{key}"


class RotationRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A step of a rotation. `force`: retire a key although it is still needed, or begin without waiting for nodes."""

    action: Literal["begin", "retire"]
    force: bool = False
