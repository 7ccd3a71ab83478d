"""`/api` and `/apis`: the served resources, one group at a time or, for clients that ask for it, in one document."""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.api.catalog import Catalog
from tarmac.api.discovery import AGGREGATED_TYPE, AGGREGATED_VERSIONS, Discovery
from tarmac.http.messages import Request, Response
from tarmac.server.printing.answers import finish
from tarmac.server.printing.negotiation import shape_of

_AGGREGATED = {
    f"as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v={version}": version for version in AGGREGATED_VERSIONS
}


class DiscoveryEndpoint:
    """Serves the paths below `/api` and `/apis`."""

    def __init__(self, catalog: Catalog) -> None:
        self._discovery = Discovery(catalog)
        self._versions = sorted({(resource.group, resource.version) for resource in catalog})

    def answer(self, request: Request, root: str, rest: str) -> Response | None:
        """Return the document below `/api` or `/apis` (`root`); None when there is none."""
        if not rest:
            return self._aggregated(request, root) or self._root(request, root)
        group, _, version = ("", "", rest) if root == "api" else rest.partition("/")
        if root == "apis" and not group:
            return None
        body = self._discovery.resources(group, version) if version else self._discovery.group(group)
        return None if body is None else finish(body, shape_of(request))

    def _root(self, request: Request, root: str) -> Response:
        if root == "apis":
            return finish(self._discovery.groups(), shape_of(request))
        return finish(self._discovery.core_versions(request.headers.get("host", "")), shape_of(request))

    def _aggregated(self, request: Request, root: str) -> Response | None:
        version = _wanted(request.headers.get("accept", ""))
        if version is None:
            return None
        found = self._discovery.aggregated(root == "api", version)
        # Without Vary a cache would answer clients of the old form, at the same URL, with the aggregated document.
        headers = [("ETag", f'"{found.etag}"'), ("Vary", "Accept"), ("Cache-Control", "public")]
        content_type = AGGREGATED_TYPE.format(version=version)
        if request.headers.get("if-none-match", "").strip('"') == found.etag:
            return Response(304, b"", content_type, headers)
        return Response(200, found.body, content_type, headers)

    def paths(self) -> Iterable[str]:
        """Yield every served path."""
        yield from ("/api", "/apis")
        for group, version in self._versions:
            if group:
                yield from (f"/apis/{group}", f"/apis/{group}/{version}")
            else:
                yield f"/api/{version}"


def _wanted(accept: str) -> str | None:
    """Return the version of the aggregated document that an Accept header names first, if before plain JSON."""
    for clause in accept.replace(" ", "").split(","):
        media, *parameters = clause.split(";")
        if media not in ("application/json", "*/*"):
            continue
        named = sorted(part for part in parameters if part.partition("=")[0] in ("as", "g", "v"))
        version = _AGGREGATED.get(";".join(named))
        if version is not None:
            return version
        if not named:
            return None
    return None
