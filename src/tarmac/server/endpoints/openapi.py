"""`/openapi/v2` and `/openapi/v3`."""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.server.http.messages import Request, Response


class OpenApi:
    def v2(self, request: Request) -> Response:
        raise NotImplementedError

    def v3(self, request: Request, part: str) -> Response | None:
        raise NotImplementedError

    def paths(self) -> Iterable[str]:
        return ()
