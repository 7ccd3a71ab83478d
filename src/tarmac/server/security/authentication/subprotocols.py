"""Bearer tokens in WebSocket subprotocols: browsers cannot send one with an upgrade in any other way.

As in Kubernetes, it is `base64url.bearer.authorization.k8s.io.` plus the token in base64url without padding, next to at
least one real subprotocol. It is moved into an `Authorization` header before the request is processed: later code finds
the token in its usual place, selects subprotocols from the remaining ones, and forwards neither.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from tarmac.api.status import Unauthorized
from tarmac.http.messages import Request

PREFIX: Final = "base64url.bearer.authorization.k8s.io."
_HEADER: Final = "sec-websocket-protocol"
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*")


def take_token(request: Request) -> None:
    """Move the token into the `Authorization` header. Raises Unauthorized for a malformed one."""
    offered = request.headers.get(_HEADER, "")
    if PREFIX not in offered or request.headers.get("upgrade", "").lower() != "websocket":
        return
    protocols = [each.strip() for each in offered.split(",")]
    tokens = [each.removeprefix(PREFIX) for each in protocols if each.startswith(PREFIX)]
    others = [each for each in protocols if each and not each.startswith(PREFIX)]
    headers = dict(request.headers)
    # Remove the token first, even if it is malformed: later code must not see it, not even to quote it in an error.
    headers[_HEADER] = ", ".join(others)
    request.headers = headers
    token = _decoded(tokens[0]) if len(tokens) == 1 and others else None
    if token is None:
        raise Unauthorized("Unauthorized")
    if token:  # an empty token counts as none, as in Kubernetes
        headers.setdefault("authorization", f"Bearer {token}")


def _decoded(text: str) -> str | None:
    """Return the token, or None if it cannot be decoded."""
    if _BASE64URL.fullmatch(text) is None:
        return None
    try:
        token = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    # A line break would end the header that the token is put into.
    return token if token.isprintable() else None
