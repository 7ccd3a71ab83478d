"""Responses in kubelet's form: errors are plain text, documents are JSON."""

from __future__ import annotations

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, Conflict, TooManyRequests
from tarmac.http.messages import Response

TEXT = "text/plain; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"


class HttpError(Exception):
    """Aborts the request with an error response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def text(status: int, message: str, content_type: str = TEXT) -> Response:
    """Return a plain text response."""
    return Response(status, message.encode(), content_type)


def refusal(status: int, message: str) -> Response:
    """Return a Status object. Used for messages that contain a colon, which clients would parse as YAML."""
    return Response(status, {400: BadRequest, 409: Conflict, 429: TooManyRequests}[status](message).encoded())


def document(content: JsonObject) -> Response:
    """Return a JSON response."""
    return Response(200, msgspec.json.encode(content))
