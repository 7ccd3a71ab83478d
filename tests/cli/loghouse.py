"""Logs of pods without a node: fake responses of a server, with all their faults."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from tarmac.base.clock import Clock, parse_rfc3339, rfc3339, rfc3339_micro
from tarmac.client.errors import Disconnected
from tarmac.client.transport import ClientRequest, Reply, StreamReply, Transport


@dataclass
class Log:
    """The log of one container. `lives` are the lines of each run."""

    lives: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    over: bool = False
    refused: tuple[int, str] | None = None

    def begin_again(self) -> None:
        self.lives.append([])


class LogHouse:
    """A transport that answers requests for logs itself and passes all other requests to the server."""

    def __init__(self, inner: Transport, clock: Clock, whole_seconds: bool = False) -> None:
        self._inner = inner
        self.clock = clock
        self.whole_seconds = whole_seconds  # as a kubelet behind a Kubernetes API server counts
        self.logs: dict[tuple[str, str], Log] = defaultdict(Log)
        self.asked: list[str] = []
        self.generation = 0
        self.down = False
        self.open = 0

    def write(self, pod: str, text: str, container: str = "main", at: float | None = None) -> None:
        time = rfc3339_micro(self.clock.now() if at is None else at)[:-1] + "000Z"
        self.logs[pod, container].lives[-1].append((time, text))

    def cut(self) -> None:
        """Break every connection."""
        self.generation += 1

    async def request(self, request: ClientRequest) -> Reply:
        if self.down:
            raise Disconnected("connection refused")
        return await self._inner.request(request)

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        return self._log(request) if request.path.endswith("/log") else self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()

    @asynccontextmanager
    async def _log(self, request: ClientRequest) -> AsyncGenerator[StreamReply]:
        if self.down:
            raise Disconnected("connection refused")
        self.asked.append(request.query)
        query = {name: values[-1] for name, values in parse_qs(request.query).items()}
        log = self.logs[request.path.split("/")[-2], query["container"]]
        headers = {"date": "Thu, 01 Jan 1970 00:00:00 GMT"}
        previous = query.get("previous") == "true"
        refused = log.refused or ((400, "no previous one") if previous and len(log.lives) < 2 else None)
        if refused:
            status = {"kind": "Status", "apiVersion": "v1", "code": refused[0], "message": refused[1]}
            yield StreamReply(refused[0], headers, _once(json.dumps(status).encode()))
            return
        self.open += 1
        try:
            yield StreamReply(200, headers, self._chunks(log, len(log.lives) - (2 if previous else 1), query))
        finally:
            self.open -= 1

    async def _chunks(self, log: Log, life: int, query: dict[str, str]) -> AsyncIterator[bytes]:
        generation, place = self.generation, 0
        lines = log.lives[life]
        if "tailLines" in query:
            place = max(0, len(lines) - int(query["tailLines"]))
        since = parse_rfc3339(query["sinceTime"]) if "sinceTime" in query else 0.0
        if "sinceSeconds" in query:
            since = self.clock.now() - int(query["sinceSeconds"])
        if self.whole_seconds:
            since = parse_rfc3339(rfc3339(since))
        while True:
            if generation != self.generation:
                raise Disconnected("the connection broke")
            new = [f"{time} {text}\n" for time, text in lines[place:] if parse_rfc3339(time) >= since]
            place = len(lines)
            data = "".join(new).encode()
            for start in range(0, len(data), 37):  # in pieces of any size
                yield data[start : start + 37]
                if generation != self.generation:
                    raise Disconnected("the connection broke")
            if log.over or life < len(log.lives) - 1 or query.get("follow") != "true":
                if place == len(lines):
                    return
            else:
                await self.clock.sleep(0.1)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    await asyncio.sleep(0)
    yield body
