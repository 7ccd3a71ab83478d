"""Answers as kubelets give them: errors are plain text, documents are JSON."""

from __future__ import annotations

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, Conflict, TooManyRequests
from tarmac.http.messages import Response

TEXT = "text/plain; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"


class HttpError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def text(status: int, message: str, content_type: str = TEXT) -> Response:
    """Plain words."""
    return Response(status, message.encode(), content_type)


def refusal(status: int, message: str) -> Response:
    """A Status, for sentences that clients would take for YAML: those with a colon in them."""
    return Response(status, {400: BadRequest, 409: Conflict, 429: TooManyRequests}[status](message).encoded())


def document(content: JsonObject) -> Response:
    """JSON."""
    return Response(200, msgspec.json.encode(content))
