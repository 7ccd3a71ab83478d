"""Answers as kubelets give them: errors are plain text, documents are JSON."""

from __future__ import annotations

import msgspec

from tarmac.api.schema import JsonObject
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


def document(content: JsonObject) -> Response:
    """JSON."""
    return Response(200, msgspec.json.encode(content))
