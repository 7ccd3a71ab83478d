"""`metrics.k8s.io`: what nodes and pods use right now, for `kubectl top`. Held in memory, never stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from tarmac.api.schema import JsonObject
from tarmac.base.selectors import LabelSelector
from tarmac.http.messages import Request, Response
from tarmac.server.printing.answers import document
from tarmac.server.routes import Route
from tarmac.server.storage.resourcestorage import ResourceStorage

Usage = Sequence[JsonObject] | Awaitable[Sequence[JsonObject]]


class UsageSource(Protocol):
    """Where measurements come from: NodeMetrics and PodMetrics objects, here or from somebody who has to be asked."""

    def nodes(self) -> Usage:
        """One for each node."""
        ...

    def pods(self) -> Usage:
        """One for each pod."""
        ...


class NoUsage:
    """Nothing is measured."""

    def nodes(self) -> Sequence[JsonObject]:
        """None."""
        return ()

    def pods(self) -> Sequence[JsonObject]:
        """None."""
        return ()


class Metering:
    """A source that is named when the server is there already, by whoever runs the nodes."""

    def __init__(self) -> None:
        self.source: UsageSource = NoUsage()

    def nodes(self) -> Usage:
        """The named source's."""
        return self.source.nodes()

    def pods(self) -> Usage:
        """The named source's."""
        return self.source.pods()


def usage_route(served: ResourceStorage, source: UsageSource) -> Route:
    """GET of one or all."""
    return {"get": partial(_answer, _get, served, source), "list": partial(_answer, _list, served, source)}


Shape = Callable[[ResourceStorage, Sequence[JsonObject], Request], Response]


def _answer(
    shape: Shape, served: ResourceStorage, source: UsageSource, request: Request
) -> Response | Awaitable[Response]:
    found = source.pods() if served.resource.namespaced else source.nodes()
    if isinstance(found, Sequence):
        return shape(served, found, request)
    return _answer_later(shape, served, found, request)


async def _answer_later(
    shape: Shape, served: ResourceStorage, coming: Awaitable[Sequence[JsonObject]], request: Request
) -> Response:
    return shape(served, await coming, request)


def _within(found: Sequence[JsonObject], request: Request) -> list[JsonObject]:
    namespace = request.info.namespace
    return [one for one in found if not namespace or one["metadata"].get("namespace") == namespace]


def _get(served: ResourceStorage, found: Sequence[JsonObject], request: Request) -> Response:
    name = request.info.name
    for one in _within(found, request):
        if one["metadata"]["name"] == name:
            return document(request, one)
    raise served.not_found(name)


def _list(served: ResourceStorage, found: Sequence[JsonObject], request: Request) -> Response:
    selector = LabelSelector.parse(request.param("labelSelector"))
    items = [one for one in _within(found, request) if selector.matches(one["metadata"].get("labels") or {})]
    resource = served.resource
    body = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": {}, "items": items}
    return document(request, body)
