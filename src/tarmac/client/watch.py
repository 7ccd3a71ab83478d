"""One watch connection: lines of JSON, or notices from the same process, turned into changes, bookmarks and errors.

A watch ends in one of four ways, and the caller must tell them apart: the server closes it at its timeout (iteration
ends), the history is gone (`Gone`, as the first response or as an ERROR event), the connection breaks (`Disconnected`),
or an invalid event arrives (`GarbledReply`). After the last two it is safe to resume from the last version seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Literal, NamedTuple, cast

import msgspec

from tarmac.client.envelope import EnvelopeMetadata, decode_event, metadata_of
from tarmac.client.errors import Disconnected, GarbledReply, from_status
from tarmac.client.requests import JSON_ONLY, Query, RequestClient, decode_json, refuse
from tarmac.client.transport import Chunks, LineSplitter, WatchNotice

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
TIMEOUT_MARGIN = 30.0
EVENTS_PER_ITERATION = 64


EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class Change(NamedTuple):
    """One event. `raw` is the object; unused for a bookmark."""

    type: EventType
    metadata: EnvelopeMetadata
    raw: bytes

    @property
    def ends_initial_events(self) -> bool:
        """True if this bookmark closes the initial state of a streaming list."""
        return (self.metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"


Watch = AsyncIterator[Change]


@asynccontextmanager
async def watch(
    client: RequestClient, path: str, query: Query, headers: Mapping[str, str] = JSON_ONLY
) -> AsyncGenerator[Watch]:
    """Open a watch. Raises ApiError when the server refuses it.

    A dead connection is closed a little after the server itself should have ended the watch.
    """
    limit = query.get("timeoutSeconds")
    deadline = asyncio.timeout(float(limit) + TIMEOUT_MARGIN if limit else None)
    try:
        async with (
            deadline,
            client.open(path, {**query, "watch": True}, headers) as reply,
        ):
            if reply.status != 200:
                raise await refuse(reply)
            yield _changes(reply.chunks)
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise Disconnected("the watch outlived its time; the connection must be dead") from error


async def _changes(chunks: Chunks) -> Watch:
    count, lines = 0, LineSplitter()
    async for chunk in chunks:
        for change in _read(lines.of(chunk)) if isinstance(chunk, bytes) else map(_noticed, chunk):
            count += 1
            if count % EVENTS_PER_ITERATION == 0:
                # A large initial state may all be in memory already: let other tasks run.
                await asyncio.sleep(0)
            yield change


def _read(lines: Iterator[bytes]) -> Iterator[Change]:
    for line in lines:
        try:
            event = decode_event(line)
        except (UnicodeError, msgspec.MsgspecError) as error:
            raise GarbledReply(f"not a watch event: {error}") from error
        if event.type in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
            yield Change(event.type, metadata_of(event.object), bytes(event.object))
        elif event.type == "ERROR":
            raise from_status(decode_json(bytes(event.object)))
        else:
            raise GarbledReply(f'unknown event type "{event.type}"')


def _noticed(notice: WatchNotice) -> Change:
    """Return the change of a notice, built by its first reader and shared by all."""
    change: Change | None = notice.memo
    if change is None:
        change = notice.memo = Change(cast("EventType", notice.type), metadata_of(notice.raw), notice.raw)
    return change
