"""Discovery."""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.api.catalog import Catalog
from tarmac.server.http.messages import Request, Response


class Discovery:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def answer(self, request: Request, root: str, rest: str) -> Response | None:
        return None

    def paths(self) -> Iterable[str]:
        return ()
