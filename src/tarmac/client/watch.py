"""One watch connection: lines of JSON turned into changes, bookmarks and errors.

A watch ends in one of four ways, and the caller must tell them apart: the server closes it after its time (iteration
ends), the history is gone (`Gone`, as the first answer or as an ERROR event), the connection breaks (`Disconnected`),
or something arrives that is no event (`GarbledReply`). After the last two it is safe to resume from the last version
seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Literal, NamedTuple

import msgspec

from tarmac.client.client import JSON_ONLY, Client, Query, decode_json, refuse
from tarmac.client.envelope import Metadata, decode_event, metadata_of
from tarmac.client.errors import Disconnected, GarbledReply, from_status
from tarmac.client.transport import lines

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
GRACE = 30.0
TURN = 64


class Change(NamedTuple):
    """One event. `raw` is what was kept of the object; for a bookmark it is empty."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    metadata: Metadata
    raw: bytes

    @property
    def ends_initial_events(self) -> bool:
        """Whether this bookmark closes the initial state of a streaming list."""
        return (self.metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"


Watch = AsyncIterator[Change]
Keep = Callable[[Metadata, bytes], bytes]
"""What to keep of an object: its bytes, equal bytes that are in memory anyway, or nothing."""


def keep_all(_metadata: Metadata, raw: bytes) -> bytes:
    """Keep the bytes."""
    return raw


@asynccontextmanager
async def watch(
    client: Client, path: str, query: Query, headers: Mapping[str, str] = JSON_ONLY, keep: Keep = keep_all
) -> AsyncGenerator[Watch]:
    """Open a watch. Raises ApiError when the server refuses it.

    A connection that dies without a word is given up a little after the server itself should have ended it.
    """
    limit = query.get("timeoutSeconds")
    deadline = asyncio.timeout(float(limit) + GRACE if limit else None)
    try:
        async with (
            deadline,
            client.open(path, {**query, "watch": True}, headers) as reply,
        ):
            if reply.status != 200:
                raise await refuse(reply)
            yield _changes(reply.chunks, keep)
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise Disconnected("the watch outlived its time; the connection must be dead") from error


async def _changes(chunks: AsyncIterator[bytes], keep: Keep) -> Watch:
    count = 0
    async for line in lines(chunks):
        count += 1
        if count % TURN == 0:
            # A large initial state may all be in memory already: let others have their turn.
            await asyncio.sleep(0)
        try:
            event = decode_event(line)
        except msgspec.MsgspecError as error:
            raise GarbledReply(f"not a watch event: {error}") from error
        if event.type in ("ADDED", "MODIFIED", "DELETED"):
            metadata = metadata_of(event.object)
            yield Change(event.type, metadata, keep(metadata, bytes(event.object)))
        elif event.type == "BOOKMARK":
            yield Change("BOOKMARK", metadata_of(event.object), b"")
        elif event.type == "ERROR":
            raise from_status(decode_json(bytes(event.object)))
        else:
            raise GarbledReply(f'unknown event type "{event.type}"')
