"""`/openapi/v2` and `/openapi/v3`: the schemas that kubectl uses to explain, validate and complete.

Clients identify documents by hash: as an entity tag, and for v3 also in the URL. The document at a URL with its current
hash never changes; a URL with an old hash is redirected.
"""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.api.openapi import OpenAPI, OpenApiDocument
from tarmac.api.openapi.documents import PROTOBUF_V2_ACCEPT, PROTOBUF_V2_TYPE
from tarmac.http.messages import Request, Response

_JSON = "application/json"


class OpenApiEndpoint:
    """Serves the paths below `/openapi`."""

    def __init__(self, openapi: OpenAPI) -> None:
        self._openapi = openapi

    def v2(self, request: Request) -> Response:
        """`/openapi/v2`, as JSON or as protobuf."""
        accept = request.headers.get("accept", "")
        # kubectl before 1.36 asks for protobuf first and accepts nothing else
        if accept.lstrip().startswith(PROTOBUF_V2_ACCEPT):
            return _tagged(request, self._openapi.v2_protobuf(), PROTOBUF_V2_TYPE)
        return _tagged(request, self._openapi.v2(), _JSON)

    def v3(self, request: Request, part: str) -> Response | None:
        """`/openapi/v3` or the document of one group below it; None when there is no such group."""
        if not part:
            return _tagged(request, self._openapi.index(), "text/plain; charset=utf-8")  # Kubernetes' type
        found = self._openapi.v3(part)
        if found is None:
            return None
        wanted = request.param("hash")
        if wanted and wanted != found.hash:
            # The hash is ours and `part` is the name of a known group: nothing of the client's text gets into the
            # header.
            return Response(301, b"", _JSON, [("Location", f"/openapi/v3/{part}?hash={found.hash}")])
        return _tagged(request, found, _JSON, [("Cache-Control", "public, immutable")] if wanted else [])

    def paths(self) -> Iterable[str]:
        """Return every served path."""
        return ("/openapi/v2", "/openapi/v3")


def _tagged(
    request: Request, found: OpenApiDocument, content_type: str, headers: Iterable[tuple[str, str]] = ()
) -> Response:
    tag = f'"{found.hash}"'
    sent = [("ETag", tag), ("Vary", "Accept"), *headers]
    if request.headers.get("if-none-match") == tag:
        return Response(304, b"", content_type, sent)
    return Response(200, found.body, content_type, sent)
