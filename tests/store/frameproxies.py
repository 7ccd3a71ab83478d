"""A proxy before a real HTTP/2 server that misbehaves frame by frame, in all the ways the protocol has."""

from __future__ import annotations

import asyncio
import struct
from asyncio import StreamReader, StreamWriter, Task
from random import Random

from tarmac.wire.http2.frames import PREFACE, Frame, FrameType, Http2FrameReader, Setting, frame

FAULTS = (
    "cut", "cut", "cut after", "cut inside", "delay", "delay", "delay", "delay", "goaway", "goaway unheard", "reset",
    "reset", "narrow", "narrow",
)  # fmt: skip
_REFUSED_STREAM, _CANCEL = 7, 8


class _Link:
    """One connection of the client, and ours to the server for it."""

    def __init__(self, client: StreamWriter, server: StreamWriter) -> None:
        self.client = client
        self.server = server
        self.highest = 0  # last stream that the server has received
        self.last: int | None = None  # last stream that is forwarded after the client received GOAWAY
        self.narrow = False
        self.sent: dict[int, int] = {}  # bytes per stream that the client sent in wide windows

    def cut(self) -> None:
        for writer in (self.client, self.server):
            writer.transport.abort()

    def grant(self, stream: int, size: int) -> None:
        if size:
            self.client.write(frame(FrameType.WINDOW_UPDATE, 0, stream, struct.pack(">I", size)))


class FrameProxy:
    """A proxy for one address; `arm` makes it misbehave from then on, `calm` ends that."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._host, self._port = host, int(port)
        self._links: set[_Link] = set()
        self._tasks: set[Task[None]] = set()
        self._server: asyncio.Server
        self._plan: list[tuple[int, str]] = []
        self._random = Random(0)
        self._passed = 0
        self.done: dict[str, int] = {}

    async def __aenter__(self) -> FrameProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for link in list(self._links):
            link.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def address(self) -> str:
        """The address of the proxy."""
        return "127.0.0.1:{1}".format(*self._server.sockets[0].getsockname())

    def arm(self, random: Random, faults: int, within: int, extra: tuple[str, ...] = ()) -> None:
        """Plan so many faults within the next so many frames."""
        self._random, self._passed = random, 0
        self._plan = sorted((random.randrange(within), random.choice(FAULTS + extra)) for _ in range(faults))

    def calm(self) -> None:
        """Stop misbehaving."""
        self._plan = []

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        upstream, server = await asyncio.open_connection(self._host, self._port)
        link = _Link(writer, server)
        self._links.add(link)
        for source, to_client in ((reader, False), (upstream, True)):
            task = asyncio.ensure_future(self._pump(link, source, to_client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, link: _Link, source: StreamReader, to_client: bool) -> None:
        frames = Http2FrameReader()
        try:
            if not to_client:
                link.server.write(await source.readexactly(len(PREFACE)))
            while data := await source.read(65536):
                for each in frames.feed(data):
                    await self._pass(link, each, to_client)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            link.cut()
            self._links.discard(link)

    async def _pass(self, link: _Link, each: Frame, to_client: bool) -> None:
        self._passed += 1
        while self._plan and self._plan[0][0] < self._passed:
            fault = self._plan.pop(0)[1]
            self.done[fault] = self.done.get(fault, 0) + 1
            await self._misbehave(fault, link, each, to_client)
        if not to_client:
            self._note(link, each)
            if link.last is not None and each.stream > link.last:
                return  # after GOAWAY the client knows that this stream will not be processed
        self._forward(link, each, to_client)

    def _note(self, link: _Link, each: Frame) -> None:
        if each.type == FrameType.HEADERS and link.last is None:
            link.highest = max(link.highest, each.stream)
        elif each.type == FrameType.DATA:
            if link.narrow:
                link.grant(each.stream, len(each.payload))
            else:
                link.sent[each.stream] = link.sent.get(each.stream, 0) + len(each.payload)

    def _forward(self, link: _Link, each: Frame, to_client: bool) -> None:
        writer = link.client if to_client else link.server
        writer.write(_bytes(each))

    async def _misbehave(self, fault: str, link: _Link, each: Frame, to_client: bool) -> None:
        match fault:
            case "cut":
                raise ConnectionError
            case "cut after":  # the request has its effect, but the response is lost
                self._forward(link, each, to_client)
                await asyncio.sleep(self._random.choice((0, 0.002)))
                raise ConnectionError
            case "cut inside":
                writer = link.client if to_client else link.server
                whole = _bytes(each)
                writer.write(whole[: self._random.randrange(len(whole))])
                await asyncio.sleep(0)
                raise ConnectionError
            case "delay":
                await asyncio.sleep(self._random.choice((0.001, 0.005, 0.02)))
            case "stall":  # longer than the client's timeout
                await asyncio.sleep(1.2)
            case "goaway" | "goaway unheard":
                # Unheard: also of streams that the server has received, as a proxy may say that does not know of them.
                last = link.highest if fault == "goaway" else self._random.randrange(link.highest + 1)
                link.last = link.highest
                link.client.write(frame(FrameType.GOAWAY, 0, 0, struct.pack(">II", last, 0)))
            case "reset":
                code = struct.pack(">I", self._random.choice((_REFUSED_STREAM, _CANCEL)))
                link.client.write(frame(FrameType.RST_STREAM, 0, each.stream or max(1, link.highest), code))
            case "narrow":
                link.narrow = True
                limits = ((Setting.INITIAL_WINDOW_SIZE, self._random.choice((1, 7, 100))),
                          (Setting.MAX_CONCURRENT_STREAMS, self._random.choice((2, 3))))  # fmt: skip
                payload = b"".join(struct.pack(">HI", *limit) for limit in limits)
                link.client.write(frame(FrameType.SETTINGS, 0, 0, payload))
                for stream, size in link.sent.items():
                    link.grant(stream, size)
                link.sent.clear()
            case _:
                raise AssertionError(fault)


def _bytes(each: Frame) -> bytes:
    return struct.pack(">HBBBI", len(each.payload) >> 8, len(each.payload) & 0xFF, *each[:3]) + each.payload
