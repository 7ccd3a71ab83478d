"""How the server tells a node for whom it asks: two headers that no client can set, because the server drops them.

X-Tarmac-User      the authenticated user, percent-encoded, since names may hold anything
X-Tarmac-Record    `off` when sessions of the namespace are not recorded
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

PREFIX: Final = "x-tarmac-"
USER_HEADER: Final = "x-tarmac-user"
RECORD_HEADER: Final = "x-tarmac-record"
NOT_RECORDED: Final = "off"
_LONGEST_USER: Final = 512


def encode_user(name: str) -> str:
    """A name as it stands in a header."""
    return quote(name[:_LONGEST_USER])


def decode_user(value: str) -> str:
    """And back."""
    return unquote(value)[:_LONGEST_USER]
