"""A bearer token among the subprotocols of a WebSocket: browsers can send one with an upgrade in no other way.

As in Kubernetes it is `base64url.bearer.authorization.k8s.io.` and the token in base64url without padding, beside at
least one subprotocol that is meant as such. It becomes an `Authorization` header before anybody looks at the request:
what comes behind sees a token where it expects one, chooses subprotocols among the others, and hands neither on.
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
    """Move a token to where tokens are looked for. Raises Unauthorized for one that is not as it should be."""
    offered = request.headers.get(_HEADER, "")
    if PREFIX not in offered or request.headers.get("upgrade", "").lower() != "websocket":
        return
    protocols = [each.strip() for each in offered.split(",")]
    tokens = [each.removeprefix(PREFIX) for each in protocols if each.startswith(PREFIX)]
    others = [each for each in protocols if each and not each.startswith(PREFIX)]
    headers = dict(request.headers)
    # Taken out first, whatever is wrong with it: nobody behind may see it, be it only to say what was refused.
    headers[_HEADER] = ", ".join(others)
    request.headers = headers
    token = _decoded(tokens[0]) if len(tokens) == 1 and others else None
    if token is None:
        raise Unauthorized("Unauthorized")
    if token:  # an empty one is none, as in Kubernetes
        headers.setdefault("authorization", f"Bearer {token}")


def _decoded(text: str) -> str | None:
    """The token; None when nobody can read it."""
    if _BASE64URL.fullmatch(text) is None:
        return None
    try:
        token = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return token if token.isprintable() else None
