"""Deprecation warnings on every response about a deprecated kind: reads, writes, watches and rejections alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from tarmac.api.status import ApiError
from tarmac.http.messages import Answer, Request, Response, StreamResponse
from tarmac.server.printing.answers import warning_headers

Endpoint = Callable[[Request], Answer | Awaitable[Answer]]


def warning_of(deprecation: str, endpoint: Endpoint) -> Endpoint:
    """Wrap the endpoint so that its responses carry a Warning in front of their other warnings."""
    warning = warning_headers([deprecation]) or []

    def warned(answer: Answer) -> Answer:
        # Copy the response: it may be a cached one that other requests get too.
        if isinstance(answer, Response):
            headers = [*warning, *(answer.headers or ())]
            return Response(answer.status, answer.body, answer.content_type, headers)
        if isinstance(answer, StreamResponse):
            headers = [*warning, *(answer.headers or ())]
            return StreamResponse(answer.start, answer.status, answer.content_type, headers, answer.abandon)
        return answer

    async def later(answer: Awaitable[Answer]) -> Answer:
        try:
            return warned(await answer)
        except ApiError as refusal:
            refusal.headers = [*warning, *(refusal.headers or ())]
            raise

    def answer(request: Request) -> Answer | Awaitable[Answer]:
        try:
            found = endpoint(request)
        except ApiError as refusal:
            refusal.headers = [*warning, *(refusal.headers or ())]
            raise
        if isinstance(found, Response | StreamResponse):
            return warned(found)
        return later(cast("Awaitable[Answer]", found))

    return answer
