"""Refusals by a server that is behind.

Where several servers share a log, each decides on what it has seen of it, which may be a moment old: a client that
created an object through one server and updates it through another would be told that it is not there, or that it has
changed. So a refusal is believed only when it was decided on everything that had happened when it was decided; else
the request is decided once more. Only for requests that have written nothing when they are refused.
"""

from __future__ import annotations

from collections.abc import Awaitable

from tarmac.api.status import ApiError
from tarmac.http.messages import Answer, Request
from tarmac.server.deprecation import Endpoint
from tarmac.store.interface import Store


async def redecided(store: Store, endpoint: Endpoint, request: Request) -> Answer:
    """The answer of `endpoint`, a write; a refusal is one that the newest state leads to."""
    seen = store.revision
    try:
        return await _answer(endpoint, request)
    except ApiError:
        if (waiting := store.fresh()) is not None:
            await waiting
        if store.revision == seen:
            raise
    return await _answer(endpoint, request)


async def _answer(endpoint: Endpoint, request: Request) -> Answer:
    answer = endpoint(request)  # reviews are answered at once
    return await answer if isinstance(answer, Awaitable) else answer
