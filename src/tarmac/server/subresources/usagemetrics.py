"""`metrics.k8s.io`: current usage of nodes and pods, for `kubectl top`. Held in memory, never stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest
from tarmac.base.cooperative import CooperativeWork
from tarmac.base.selectors import LabelMatcher
from tarmac.http.messages import Request, Response
from tarmac.server.encoding import encode_json
from tarmac.server.printing.answers import document
from tarmac.server.routes import Route
from tarmac.server.storage.resourcestorage import ResourceStorage

Usage = Sequence[JsonObject] | Awaitable[Sequence[JsonObject]]
_CHUNK_SIZE: Final = 64  # objects between two points at which a response may be suspended


class UsageSource(Protocol):
    """Source of NodeMetrics and PodMetrics objects, local or in another process."""

    def nodes(self) -> Usage:
        """Return one object per node."""
        ...

    def pods(self) -> Usage:
        """Return one object per pod."""
        ...


class NoUsage:
    """A source without measurements."""

    def nodes(self) -> Sequence[JsonObject]:
        """Return nothing."""
        return ()

    def pods(self) -> Sequence[JsonObject]:
        """Return nothing."""
        return ()


class Metering:
    """The source in use: that of the other workers, or one that this process runs for a time."""

    def __init__(self, elsewhere: UsageSource) -> None:
        self.source = elsewhere

    @contextmanager
    def measured_by(self, source: UsageSource) -> Generator[None]:
        """Publish the measurements of this source during the block."""
        before, self.source = self.source, source
        try:
            yield
        finally:
            # On cancellation, too: this process must not answer with figures that it no longer measures.
            self.source = before

    def nodes(self) -> Usage:
        """Return the objects of the source in use."""
        return self.source.nodes()

    def pods(self) -> Usage:
        """Return the objects of the source in use."""
        return self.source.pods()


class PastUsage(Protocol):
    """Samples of the last minutes."""

    def shown(self, name: str, namespace: str = "") -> JsonObject:
        """Return the samples of a pod, or without a namespace of a node."""
        ...

    def ready(self, namespace: str, name: str) -> JsonObject:
        """Return the samples of a Workload."""
        ...


class NoPastUsage:
    """A server that keeps no samples."""

    def shown(self, name: str, namespace: str = "") -> JsonObject:
        """Return none."""
        return {"samples": []}

    def ready(self, namespace: str, name: str) -> JsonObject:
        """Return none."""
        return self.shown(name, namespace)


def usage_route(storage: ResourceStorage, source: UsageSource, past: PastUsage) -> Route:
    """GET of one object, with `history=true` also of its past, or of all."""
    return {
        "get": partial(_answer, partial(_get, past), storage, source),
        "list": partial(_answer, _list, storage, source),
    }


Shape = Callable[[ResourceStorage, Sequence[JsonObject], Request], CooperativeWork[Response]]


def _answer(
    shape: Shape, storage: ResourceStorage, source: UsageSource, request: Request
) -> Response | Awaitable[Response]:
    found = source.pods() if storage.resource.namespaced else source.nodes()
    if isinstance(found, Sequence):
        return storage.services.runner.run(shape(storage, found, request), lambda response: response)
    return _answer_later(shape, storage, found, request)


async def _answer_later(
    shape: Shape, storage: ResourceStorage, coming: Awaitable[Sequence[JsonObject]], request: Request
) -> Response:
    return await storage.services.runner.done(shape(storage, await coming, request))


def _within(found: Sequence[JsonObject], request: Request) -> Iterator[list[JsonObject]]:
    """Yield the objects of the requested namespace in batches."""
    namespace = request.info.namespace
    for start in range(0, len(found), _CHUNK_SIZE):
        batch = found[start : start + _CHUNK_SIZE]
        yield [one for one in batch if not namespace or one["metadata"].get("namespace") == namespace]


def _get(
    past: PastUsage, storage: ResourceStorage, found: Sequence[JsonObject], request: Request
) -> CooperativeWork[Response]:
    name, namespace = request.info.name, request.info.namespace
    history = {"history": past.shown(name, namespace)} if request.param("history") == "true" else {}
    for batch in _within(found, request):
        for one in batch:
            if one["metadata"]["name"] == name:
                return document(request, one | history)
        yield
    raise storage.not_found(name)


def _list(storage: ResourceStorage, found: Sequence[JsonObject], request: Request) -> CooperativeWork[Response]:
    """Encode the objects batch by batch: the list of a large cluster has megabytes."""
    try:
        selector = LabelMatcher.parse(request.param("labelSelector"))
    except ValueError as error:
        raise BadRequest(str(error)) from None
    items: list[msgspec.Raw] = []
    for batch in _within(found, request):
        shown = (one for one in batch if selector.matches(one["metadata"].get("labels") or {}))
        items += [msgspec.Raw(encode_json(one)) for one in shown]
        yield
    resource = storage.resource
    body = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": {}, "items": items}
    return document(request, body)
