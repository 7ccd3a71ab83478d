"""All paths outside the API proper: discovery, OpenAPI, version, health, metrics, and the list of all paths."""

from __future__ import annotations

import platform
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import tarmac
from tarmac.api.catalog import Catalog
from tarmac.api.kubernetes.version import GIT_VERSION
from tarmac.api.nodetokens import SERVERS_PATH
from tarmac.api.schema import JsonObject
from tarmac.api.status import NO_METHOD, MethodNotAllowed, NotFound, not_found
from tarmac.http.messages import Answer, Request, Response
from tarmac.server.endpoints.discovery import DiscoveryEndpoint
from tarmac.server.endpoints.health import HealthEndpoint
from tarmac.server.endpoints.openapi import OpenApiEndpoint
from tarmac.server.metrics import Metrics
from tarmac.server.printing.answers import document
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.routes import NO_RESOURCE

EXPOSITION = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
# kubectl looks up unknown kinds here. If that fails, it reports this failure to the user instead of the mistyped kind.
_CUSTOM_RESOURCES = ("list", "apiextensions.k8s.io", "v1", "customresourcedefinitions")
_NO_CUSTOM_RESOURCES = (
    b'{"kind":"CustomResourceDefinitionList","apiVersion":"apiextensions.k8s.io/v1","metadata":{},"items":[]}'
)
_HEALTH = ("livez", "readyz", "healthz")

Endpoint = Callable[[Request], Answer | Awaitable[Answer]]

PACKAGED: Final = "COMMIT"
"""The file that `tools/package.py` writes beside the modules."""


class Documents:
    """Serves documents by path."""

    def __init__(
        self,
        catalog: Catalog,
        discovery: DiscoveryEndpoint,
        openapi: OpenApiEndpoint,
        health: Iterable[HealthEndpoint],
        metrics: Metrics,
        more: Mapping[str, Endpoint],
    ) -> None:
        """`more` maps paths to endpoints; a path that ends with a slash covers everything below it, for all methods."""
        self._catalog = catalog
        self._native = {resource.group for resource in catalog if resource.native}
        self._discovery = discovery
        self._openapi = openapi
        self._health = {part.name: part for part in health}
        self._exact: dict[str, Endpoint] = {
            "/": self._paths,
            "/version": lambda request: document(request, version()),
            "/metrics": lambda _: Response(200, metrics.text(), EXPOSITION),
            "/openapi/v2": openapi.v2,
            **{path: endpoint for path, endpoint in more.items() if not path.endswith("/")},
        }
        self._below = {path: endpoint for path, endpoint in more.items() if path.endswith("/")}

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        """Handle a request for a path outside the API. Raises MethodNotAllowed, NotFound."""
        for prefix, endpoint in self._below.items():
            if request.path.startswith(prefix):
                return endpoint(request)
        # After the prefixes above, which end in a slash themselves.
        path = request.path.rstrip("/") or "/"
        endpoint = self._exact.get(path) or self._family(path)
        response = None if endpoint is None else endpoint(request)
        if response is None:
            return self._missing(_group_in(path))
        if request.method not in ("GET", "HEAD") and path[1:].partition("/")[0] not in _HEALTH and path != SERVERS_PATH:
            raise MethodNotAllowed(NO_METHOD, details={})
        return response

    def unknown(self, info: RequestInfo) -> Response:
        """Handle an unknown resource or subresource. For our own kinds the error is that of a custom resource."""
        if (info.verb, info.group, info.version, info.resource) == _CUSTOM_RESOURCES:
            return Response(200, _NO_CUSTOM_RESOURCES)
        resource = self._catalog.find(info.group, info.version, info.resource)
        if resource is not None and not resource.native:
            raise not_found(info.group, info.resource, info.name)
        return self._missing(info.group)

    def _missing(self, group: str | None) -> Response:
        """Raise NotFound within a native group, else return Go's plain 404 page."""
        if group in self._native:
            raise NotFound(NO_RESOURCE, details={})
        return page_not_found()

    def _family(self, path: str) -> Callable[[Request], Answer | Awaitable[Answer] | None] | None:
        first, _, rest = path[1:].partition("/")
        if first in ("api", "apis"):
            return lambda request: self._discovery.answer(request, first, rest)
        if first in _HEALTH:
            return lambda request: self._health[first].answer(request, rest)
        if path.startswith("/openapi/v3"):
            return lambda request: self._openapi.v3(request, path.removeprefix("/openapi/v3").strip("/"))
        return None

    def _paths(self, request: Request) -> Response:
        paths = [*self._discovery.paths(), *self._openapi.paths(), *self._exact]
        paths.remove("/")
        paths += [f"/{name}" for name in _HEALTH]
        paths += [f"/{name}/{check}" for name, part in self._health.items() for check in part.names()]
        return document(request, {"paths": sorted(set(paths))})


def _group_in(path: str) -> str | None:
    """Return the group of a path below `/api` or `/apis`."""
    first, _, rest = path[1:].partition("/")
    return {"api": "", "apis": rest.partition("/")[0] or None}.get(first)


def page_not_found() -> Response:
    """Return the 404 response of Go's HTTP server."""
    headers = [("X-Content-Type-Options", "nosniff")]
    return Response(404, b"404 page not found\n", "text/plain; charset=utf-8", headers)


# `/version`: the version of the Kubernetes API that this server implements.


def version() -> JsonObject:
    """Return the document. `goVersion` and `compiler` are mandatory field names; the values describe Python."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": "1",
        "minor": "35",
        "emulationMajor": "1",
        "emulationMinor": "35",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "34",
        "gitVersion": GIT_VERSION,
        "gitCommit": commit(),
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{machine}",
    }


# The commit that this program was built from, read from its package or its checkout.


@cache
def commit() -> str:
    """Return the hash; empty if unknown."""
    return commit_of(Path(tarmac.__file__).parent)


def commit_of(package: Path) -> str:
    """Return the hash that belongs to a directory of modules."""
    try:
        if (package / PACKAGED).exists():
            return (package / PACKAGED).read_text().strip()
        return _checked_out(package.parents[1] / ".git")
    except OSError:
        return ""


def _checked_out(git: Path) -> str:
    head = (git / "HEAD").read_text().strip()
    name = head.removeprefix("ref: ")
    if name == head:
        return head  # detached
    if (git / name).exists():
        return (git / name).read_text().strip()
    packed = (line.split() for line in (git / "packed-refs").read_text().splitlines())
    return next((fields[0] for fields in packed if fields[1:] == [name]), "")
