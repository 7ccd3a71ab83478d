"""Retries rejections that were based on outdated state.

Where several servers share a log, each decides on the part it has seen, which may be a moment old: a client that
created an object through one server and updates it through another would be told that it does not exist, or that it has
changed. So a rejection stands only if this server had seen everything that had happened by then; else the request is
decided once more. Only for requests that have written nothing when they are rejected.
"""

from __future__ import annotations

from collections.abc import Awaitable

from tarmac.api.status import ApiError
from tarmac.http.messages import Answer, Request
from tarmac.server.deprecation import Endpoint
from tarmac.store.interface import Store


async def retry_stale_refusal(store: Store, endpoint: Endpoint, request: Request) -> Answer:
    """Return the response of `endpoint`, a write. A rejection is repeated on the newest state before it is returned."""
    # Before the endpoint decides: a revision read after the rejection could hide a write that arrived during it.
    seen = store.revision
    try:
        return await _answer(endpoint, request)
    except ApiError:
        if (waiting := store.fresh()) is not None:
            await waiting
        if store.revision == seen:
            raise
    # Only rejections are repeated: a write that was accepted must not be sent twice.
    return await _answer(endpoint, request)


async def _answer(endpoint: Endpoint, request: Request) -> Answer:
    answer = endpoint(request)  # reviews return without awaiting
    return await answer if isinstance(answer, Awaitable) else answer
