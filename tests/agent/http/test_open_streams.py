"""Streams stay open only while their caller has the right to open them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from tarmac.agent.http.kubeletanswers import HttpError
from tarmac.agent.http.openstreams import MAX_UNANSWERED, REVIEW_INTERVAL, OpenStreams
from tarmac.base.clock import ManualClock
from tarmac.http.messages import Request, Response, StreamResponse, UpgradeResponse

REFUSED, AWAY = HttpError(403, "revoked"), HttpError(500, "the API server is away")


class Reviewer:
    """An authorizer with a set verdict, which counts reviews."""

    def __init__(self) -> None:
        self.verdict: HttpError | Exception | None = None
        self.asked = 0

    async def admit(self, request: Request) -> str:
        return "alice"

    async def review(self, request: Request) -> None:
        self.asked += 1
        if self.verdict is not None:
            raise self.verdict


class Connection:
    """A connection, also as the sending half of a stream."""

    def __init__(self) -> None:
        self.over = False

    def abort(self) -> None:
        self.over = True

    def is_closing(self) -> bool:
        return self.over


@pytest.fixture
def reviewer() -> Reviewer:
    return Reviewer()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def streams(reviewer: Reviewer, clock: ManualClock) -> AsyncIterator[OpenStreams]:
    made = OpenStreams(reviewer, clock)
    yield made
    await made.close()


def opened(streams: OpenStreams, token: str = "alice", path: str = "/exec/default/web/main") -> Connection:
    connection = Connection()
    request = Request("GET", path, headers={"authorization": f"Bearer {token}"})
    answer = streams.watch(request, UpgradeResponse(lambda client, rest: None))
    assert isinstance(answer, UpgradeResponse)
    answer.start(cast("asyncio.Transport", connection), b"")
    return connection


async def passing(clock: ManualClock, seconds: float) -> None:
    for _ in range(round(seconds / REVIEW_INTERVAL)):
        await _settle()
        clock.advance(REVIEW_INTERVAL)
    await _settle()


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_stream_ends_at_the_first_review_that_is_refused(
    streams: OpenStreams, reviewer: Reviewer, clock: ManualClock
) -> None:
    stream = opened(streams)
    await passing(clock, 3 * REVIEW_INTERVAL)
    assert (stream.over, reviewer.asked) == (False, 3)
    reviewer.verdict = REFUSED
    await passing(clock, REVIEW_INTERVAL)
    assert stream.over


async def test_streams_of_one_caller_share_a_review_and_those_of_others_do_not(
    streams: OpenStreams, reviewer: Reviewer, clock: ManualClock
) -> None:
    for _ in range(50):
        opened(streams)
    opened(streams, "bob")
    opened(streams, path="/containerLogs/default/web/main")
    await passing(clock, REVIEW_INTERVAL)
    assert reviewer.asked == 3


async def test_streams_outlast_an_unreachable_server_for_a_bounded_time(
    streams: OpenStreams, reviewer: Reviewer, clock: ManualClock
) -> None:
    stream = opened(streams)
    reviewer.verdict = AWAY
    await passing(clock, MAX_UNANSWERED)
    assert not stream.over
    reviewer.verdict = None
    await passing(clock, REVIEW_INTERVAL)
    reviewer.verdict = AWAY  # the failures are counted from zero again
    await passing(clock, MAX_UNANSWERED)
    assert not stream.over
    await passing(clock, REVIEW_INTERVAL)
    assert stream.over


async def test_no_stream_stays_without_a_review_when_reviewing_fails(
    streams: OpenStreams, reviewer: Reviewer, clock: ManualClock
) -> None:
    stream = opened(streams)
    reviewer.verdict = RuntimeError("a defect")
    await passing(clock, REVIEW_INTERVAL)
    assert stream.over


async def test_a_stream_that_has_ended_costs_no_review(
    streams: OpenStreams, reviewer: Reviewer, clock: ManualClock
) -> None:
    opened(streams).abort()
    await passing(clock, 2 * REVIEW_INTERVAL)
    assert reviewer.asked == 0
    later = opened(streams)
    reviewer.verdict = REFUSED
    await passing(clock, REVIEW_INTERVAL)
    assert later.over


async def test_a_streamed_response_ends_as_well(streams: OpenStreams, reviewer: Reviewer, clock: ManualClock) -> None:
    stopped: list[str] = []
    answer = streams.watch(
        Request("GET", "/containerLogs/default/web/main"), StreamResponse(lambda stream: lambda: stopped.append("stop"))
    )
    assert isinstance(answer, StreamResponse)
    connection = Connection()
    ended = answer.start(connection)  # pyright: ignore[reportArgumentType]
    reviewer.verdict = REFUSED
    await passing(clock, REVIEW_INTERVAL)
    assert connection.over
    ended()
    assert stopped == ["stop"]


def test_a_complete_response_is_returned_as_it_is(reviewer: Reviewer, clock: ManualClock) -> None:
    whole = Response(200)
    assert OpenStreams(reviewer, clock).watch(Request("GET", "/pods"), whole) is whole
