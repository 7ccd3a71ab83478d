"""Headers by which the server passes the user to a node. No client can set them, because the server drops them.

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
_MAX_USER: Final = 512


def encode_user(name: str) -> str:
    """Encode a user name for a header."""
    return quote(name[:_MAX_USER])


def decode_user(value: str) -> str:
    """Decode a user name from a header."""
    return unquote(value)[:_MAX_USER]
