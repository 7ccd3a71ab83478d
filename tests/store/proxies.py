"""A TCP proxy that a test can make fail in the ways networks do."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter, Task


class Proxy:
    """Forwards to one address. `cut` breaks it; `swallow_replies` lets requests through but cuts before the answer."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._host, self._port = host, int(port)
        self._writers: set[StreamWriter] = set()
        self._tasks: set[Task[None]] = set()
        self._server: asyncio.Server
        self.open = True
        self.swallow_replies = False
        self.swallowed = 0

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def address(self) -> str:
        """The address of the proxy."""
        return "127.0.0.1:{1}".format(*self._server.sockets[0].getsockname())

    def cut(self) -> None:
        """End all connections."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        if not self.open:
            writer.transport.abort()
            return
        upstream_reader, upstream_writer = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, upstream_writer}
        for source, sink, is_reply in ((reader, upstream_writer, False), (upstream_reader, writer, True)):
            task = asyncio.ensure_future(self._pump(source, sink, is_reply))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: StreamReader, sink: StreamWriter, is_reply: bool) -> None:
        try:
            while data := await source.read(65536):
                if is_reply and self.swallow_replies:
                    self.swallow_replies = False
                    self.swallowed += 1
                    self.cut()
                    return
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.transport.abort()
            self._writers.discard(sink)
