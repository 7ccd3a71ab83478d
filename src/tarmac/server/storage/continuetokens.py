"""Continue tokens: the key after which the next page of a list begins, and the resource version it belongs to.

Opaque to clients, but the same inside as Kubernetes' own: base64 of the resource version and the key to start from. A
token without a version (-1) means "from here, at the newest version". Clients get such a token when the version they
were paging through has been compacted.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, Gone

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_NOW = -1


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


_decode = msgspec.json.Decoder(_Token).decode
_encode = msgspec.json.Encoder().encode


class ListPosition(NamedTuple):
    """Starts after the key `after`, at `revision` (0: now)."""

    after: str
    revision: int


def token(after: str, revision: int) -> str:
    """Return the token of a position."""
    # With NUL the key is the next possible one after `after`, as in kube-apiserver's tokens: `after` itself was
    # returned.
    body = _encode(_Token("meta.k8s.io/v1", revision, f"{after}\0"))
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def position(text: str, prefix: str) -> ListPosition:
    """Decode a token. Raises BadRequest."""
    try:
        # Go's RawURLEncoding omits the padding that Python requires.
        found = _decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise BadRequest(f"invalid continue token: continue key is not valid: {error}") from None
    # Clients can forge tokens: a start outside the prefix would begin in a namespace that they may not list.
    if found.v != "meta.k8s.io/v1" or not found.start.startswith(prefix) or found.rv == 0:
        raise BadRequest(
            "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion or key"
        )
    return ListPosition(found.start.rstrip("\0"), 0 if found.rv == _NOW else found.rv)


class ExpiredToken(Gone):
    """The token's revision has been compacted; the Status carries a new token without a revision to continue with."""

    def __init__(self, after: str) -> None:
        super().__init__(_TOO_OLD)
        self._token = token(after, _NOW)

    def status(self) -> JsonObject:
        """Return the Status with the new token."""
        return super().status() | {"metadata": {"continue": self._token}}
