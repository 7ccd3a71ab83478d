"""Requests of the status writer about pods, and cases without any request."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from tarmac.agent.model.pod import AgentPod
from tarmac.agent.status.writer import StatusWriter
from tarmac.client.client import Client
from tarmac.client.transport import ClientRequest, Reply, StreamReply

POD = AgentPod(
    {"metadata": {"namespace": "a", "name": "b", "uid": "u", "resourceVersion": "1"}, "spec": {}, "status": {}}
)
ANSWER = b'{"metadata":{"namespace":"a","name":"b","uid":"u","resourceVersion":"2"},"status":{"phase":"Failed"}}'


class SlowServer:
    """A server whose responses wait for an event."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answered: list[str] = []
        self.may_answer = asyncio.Event()

    async def request(self, request: ClientRequest) -> Reply:
        self.asked.append(request.method)
        await self.may_answer.wait()
        self.answered.append(request.method)
        return Reply(200, {}, ANSWER)

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        raise NotImplementedError

    async def close(self) -> None:
        return None


async def test_a_request_about_a_pod_that_is_gone_is_let_finish_and_nothing_follows_it() -> None:
    server = SlowServer()
    writer = StatusWriter(Client(server))
    writer.observe(POD)
    writer.submit("u", {"phase": "Failed"}, delete=True)
    while not server.asked:
        await asyncio.sleep(0)
    writer.forget("u")
    server.may_answer.set()
    await writer.settled()
    assert (server.asked, server.answered) == (["PATCH"], ["PATCH"]), "its connection is kept, and there is no DELETE"


class StrictServer(SlowServer):
    """A server that rejects the first status and accepts later ones."""

    async def request(self, request: ClientRequest) -> Reply:
        reply = await super().request(request)
        return Reply(422, {}, b'{"kind":"Status","code":422,"reason":"Invalid"}') if len(self.asked) == 1 else reply


async def test_a_status_submitted_while_another_is_rejected_is_sent() -> None:
    server = StrictServer()
    writer = StatusWriter(Client(server))
    writer.observe(POD)
    writer.submit("u", {"phase": "Odd"})
    while not server.asked:
        await asyncio.sleep(0)
    writer.submit("u", {"phase": "Failed"})
    server.may_answer.set()
    await writer.settled()
    assert server.asked == ["PATCH", "PATCH"]
