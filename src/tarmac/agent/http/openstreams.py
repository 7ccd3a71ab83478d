"""Ends open streams of callers that lost their rights, such as by the revocation of a certificate.

A stream is authorized when it is opened and may last for hours. So the API server is asked again while one is open:
for each caller and right, every few seconds and regardless of cached answers. While the API server is unreachable,
streams stay open for as long as a permission of kubelets is cached; then they end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tarmac.agent.http.auth import RequestAuthorizer, attributes
from tarmac.agent.http.kubeletanswers import HttpError
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.http.messages import Answer, Request, Response, Stream, StreamResponse, UpgradeResponse, bearer_token

REVIEW_INTERVAL = 5.0
REVIEW_TIMEOUT = 4.0
MAX_UNANSWERED = 300.0
_log = log("streams")

_Right = tuple[bytes | str, str, tuple[str, ...]]
"""Credential, verb and subresources: streams with the same share one review."""


class _Open:
    """One open stream."""

    __slots__ = ("abort", "is_over")

    def __init__(self, abort: Callable[[], None], is_over: Callable[[], bool]) -> None:
        self.abort = abort
        self.is_over = is_over


class OpenStreams:
    """The streams that callers have open on the node's port."""

    def __init__(self, authorizer: RequestAuthorizer, clock: Clock) -> None:
        self._authorizer = authorizer
        self._clock = clock
        self._open: dict[_Right, list[_Open]] = {}
        self._tasks = Tasks()

    def watch(self, request: Request, answer: Answer) -> Answer:
        """Return the response to an admitted request; if it is a stream, end it when the caller's right ends."""
        if isinstance(answer, Response):
            return answer
        if isinstance(answer, StreamResponse):
            return self._watch_stream(request, answer)
        begin = answer.start

        def start(client: asyncio.Transport, rest: bytes) -> None:
            # Registered after it has begun: an upgrade that fails to begin has no stream to end.
            begin(client, rest)
            self._add(request, _Open(client.abort, client.is_closing))

        return UpgradeResponse(start, answer.headers, answer.abandon)

    async def close(self) -> None:
        """End all streams."""
        await self._tasks.close()

    def _watch_stream(self, request: Request, answer: StreamResponse) -> StreamResponse:
        begin = answer.start

        def start(stream: Stream) -> Callable[[], None]:
            stop, over = begin(stream), False

            def ended() -> None:
                nonlocal over
                over = True
                stop()

            self._add(request, _Open(stream.abort, lambda: over))
            return ended

        return StreamResponse(start, answer.status, answer.content_type, answer.headers, answer.abandon)

    def _add(self, request: Request, stream: _Open) -> None:
        verb, subresources = attributes(request)
        right = (request.peer_certificate or bearer_token(request), verb, tuple(subresources))
        known = self._open.get(right)
        if known is not None:
            known.append(stream)
            return
        self._open[right] = [stream]
        self._tasks.begin(self._review(right, request), "review of open streams")

    async def _review(self, right: _Right, request: Request) -> None:
        """Ask again until no stream is open."""
        answered = self._clock.monotonic()
        try:
            while True:
                await self._clock.sleep(REVIEW_INTERVAL)
                self._open[right] = [each for each in self._open[right] if not each.is_over()]
                if not self._open[right]:
                    return
                refusal = await self._refusal(request)
                # Only a failure to ask is tolerated for a while: a definite refusal ends the streams at once.
                if refusal is None or refusal.status != 500:
                    answered = self._clock.monotonic()
                if refusal is not None and (
                    refusal.status != 500 or self._clock.monotonic() - answered > MAX_UNANSWERED
                ):
                    lost = len(self._open[right])
                    _log.warning("streams ended, the caller lost its right", streams=lost, reason=str(refusal))
                    return
        finally:
            # Also after a failure of this task: no stream stays open without a review. No await since the streams were
            # looked at, so a stream that is added from now on gets a review of its own.
            for each in self._open.pop(right):
                each.abort()

    async def _refusal(self, request: Request) -> HttpError | None:
        try:
            async with asyncio.timeout(REVIEW_TIMEOUT):
                await self._authorizer.review(request)
        except HttpError as error:
            return error
        except TimeoutError:
            return HttpError(500, f"the API server does not answer within {REVIEW_TIMEOUT:.0f} s")
        return None
