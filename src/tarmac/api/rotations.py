"""Rotating keys of the cluster: what is asked of a server, and how servers and nodes show which keys they go by."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

ROTATIONS_PATH: Final = "/tarmac/v1/rotations/"
TRUSTS: Final = "tarmac.dev/trusts"
"""On a server's Lease and on a Node, with spaces between: ids of the keys whose tokens are taken, and words of keys."""


def trusts_authority(key: str) -> str:
    """The word of whoever trusts certificates of this authority."""
    return f"ca:{key}"


def certified_by(key: str) -> str:
    """The word of a node whose own certificate is of this authority."""
    return f"own:{key}"


def opens_with(key: str) -> str:
    """The word of a server that reads what this key has sealed, and will after its next start."""
    return f"encryption:{key}"


def seals_with(key: str) -> str:
    """The word of a server that seals with this key."""
    return f"seals:{key}"


class RotationRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What to do. `force`: retire whoever still needs the old key; or begin, and do not wait for nodes."""

    action: Literal["begin", "retire"]
    force: bool = False
