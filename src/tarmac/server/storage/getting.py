"""Get: the stored bytes of one object. The cheapest path through the server, and the most used one."""

from __future__ import annotations

from collections.abc import Awaitable

from tarmac.api.status import ApiError
from tarmac.http.messages import Request, Response
from tarmac.server.storage.listing import too_large
from tarmac.server.storage.options import parse_revision
from tarmac.server.storage.resourcestorage import ResourceStorage


def get(storage: ResourceStorage, request: Request) -> Response | Awaitable[Response]:
    """GET of one object."""
    wanted = request.param("resourceVersion") if request.query else ""
    # Version 0 accepts any state, without a round trip to the log. The answer may be older than the client's last
    # write.
    if wanted != "0":
        waiting = storage.source.fresh()
        if waiting is not None:
            return _get_fresh(waiting, storage, request, wanted)
    return _get(storage, request, wanted)


async def _get_fresh(waiting: Awaitable[None], storage: ResourceStorage, request: Request, wanted: str) -> Response:
    await waiting
    return _get(storage, request, wanted)


def _get(storage: ResourceStorage, request: Request, wanted: str) -> Response:
    info = request.info
    if wanted:
        _check_reached(storage, wanted)
    entry = storage.source.get(storage.bucket, storage.key(info.namespace, info.name))
    if entry is None:
        raise storage.not_found(info.name)
    return storage.answer(request, entry)


def _check_reached(storage: ResourceStorage, wanted: str) -> None:
    """Reject a resource version that this server has not reached yet. Raises ApiError, Timeout."""
    try:
        revision = parse_revision(wanted)
    except ValueError as error:
        raise ApiError(str(error), reason="") from None
    if revision > storage.source.revision:
        raise too_large(revision, storage.source.revision)
