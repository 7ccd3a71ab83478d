"""A runtime for tests of streams: its containers are processes of this machine, its streaming server speaks SPDY.

It behaves as containerd does: it accepts streams as they arrive, starts the command once all are open, and reports its
end on the error stream.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import struct
import termios
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from tarmac.http.listener import Listener, serve
from tarmac.http.messages import Answer, Request, Response, UpgradeResponse
from tarmac.runtimes.cri.streaming import open_stream
from tarmac.runtimes.interface import (
    CommandStream,
    ContainerState,
    ExecResult,
    PodIdentity,
    Runtime,
    RuntimeContainer,
    RuntimeObjectNotFound,
    RuntimeSandbox,
    StreamOptions,
)
from tarmac.wire.channels import PROTOCOL_VERSION, STREAM_TYPE, V4, Channel, exited, failure
from tarmac.wire.spdy import GoneAway, SpdySession, StreamData, StreamFinished, StreamOpened
from tarmac.wire.violations import ProtocolViolation


@dataclass
class Asked:
    """A stream that a response's URL offers."""

    command: Sequence[str]
    tty: bool
    channels: frozenset[str]


@dataclass
class ProcessRuntime:
    """The part of `Runtime` that streams need. `attach_command` is the command that attaching runs."""

    states: dict[str, ContainerState] = field(default_factory=dict[str, ContainerState])
    attach_command: Sequence[str] = ("cat",)
    listener: Listener | None = None
    asked: dict[str, Asked] = field(default_factory=dict[str, Asked])
    sessions: set[CommandSession] = field(default_factory=set["CommandSession"])
    heard: bytearray = field(default_factory=bytearray)  # all bytes received on streams

    async def start(self) -> None:
        self.listener = await serve(self._serve, None)

    async def stop(self) -> None:
        await asyncio.gather(*(session.stop() for session in list(self.sessions)))
        if self.listener is not None:
            await self.listener.stop(0.1)

    def as_runtime(self) -> Runtime:
        return cast("Runtime", self)

    async def container(self, id: str) -> RuntimeContainer:
        if id not in self.states:
            raise RuntimeObjectNotFound(id)
        return RuntimeContainer(id, "sandbox", "main", 0, self.states[id], "image", "sha256:1", {}, {}, 0.0)

    async def containers(self, pod_uid: str | None = None) -> Sequence[RuntimeContainer]:
        return [await self.container(each) for each in self.states]

    async def sandboxes(self, pod_uid: str | None = None) -> Sequence[RuntimeSandbox]:
        return [RuntimeSandbox("sandbox", PodIdentity("default", "web", "u1"), True, 0.0, "runc", {}, {})]

    async def exec(self, id: str, command: Sequence[str], timeout: float) -> ExecResult:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        out, err = await process.communicate()
        return ExecResult(out, err, process.returncode or 0)

    async def exec_stream(self, id: str, command: Sequence[str], options: StreamOptions) -> CommandStream:
        return await open_stream(self._promise(id, command, options), options)

    async def attach_stream(self, id: str, options: StreamOptions) -> CommandStream:
        return await open_stream(self._promise(id, self.attach_command, options), options)

    def _promise(self, id: str, command: Sequence[str], options: StreamOptions) -> str:
        if self.states.get(id) != "running":
            raise RuntimeObjectNotFound(id)
        assert self.listener is not None
        token = f"t{len(self.asked)}"
        self.asked[token] = Asked(command, options.tty, frozenset(each.stream_type for each in options.channels()))
        return f"http://127.0.0.1:{self.listener.port}/exec/{token}"

    def _serve(self, request: Request) -> Answer:
        asked = self.asked.get(request.path.rpartition("/")[2])
        if asked is None or request.headers.get("upgrade") != "SPDY/3.1" or request.method != "POST":
            return Response(404, b"no such stream", "text/plain")
        assert V4 in request.headers.get(PROTOCOL_VERSION, "")
        headers = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", V4)]
        return UpgradeResponse(lambda transport, rest: CommandSession(self, transport, asked).start(rest), headers)


async def begun(*command: str, **options: Any) -> asyncio.subprocess.Process:
    """Start a process. A cancelled start ends the process, which would be lost otherwise."""
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*command, start_new_session=True, **options))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await ended(await starting)
        raise


async def ended(process: asyncio.subprocess.Process) -> None:
    """End a process and close its pipes, first: asyncio does not report the end while a pipe is paused."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
    process._transport.close()  # type: ignore[attr-defined]  # pyright: ignore
    await process.wait()


class CommandSession(asyncio.Protocol):
    """One command and its streams."""

    def __init__(self, runtime: ProcessRuntime, transport: asyncio.Transport, asked: Asked) -> None:
        self.runtime, self.transport, self.asked = runtime, transport, asked
        self.session = SpdySession(server=True)
        self.streams: dict[str, int] = {}
        self.input: asyncio.StreamWriter | None = None
        self.terminal = -1
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.writable = asyncio.Event()
        self.writable.set()
        self.task: asyncio.Task[None] | None = None
        runtime.sessions.add(self)

    def start(self, rest: bytes) -> None:
        self.transport.set_protocol(self)
        self.data_received(rest)

    async def stop(self) -> None:
        self.transport.abort()  # cancels the task
        if self.task is not None:
            await asyncio.wait([self.task])

    def connection_lost(self, exc: Exception | None) -> None:
        if self.task is not None:
            self.task.cancel()
            self.task.add_done_callback(lambda _: self.runtime.sessions.discard(self))
        else:
            self.runtime.sessions.discard(self)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        self.runtime.heard += data
        try:
            events = self.session.receive(data)
        except ProtocolViolation:
            self.transport.abort()
            return
        for event in events:
            if isinstance(event, StreamOpened):
                self.streams[event.headers[STREAM_TYPE]] = event.stream
                self.session.accept(event.stream)
                if self.asked.channels == self.streams.keys() and self.task is None:
                    self.task = asyncio.ensure_future(self.run())
            elif isinstance(event, StreamData):
                self.on_data(event)
            elif isinstance(event, StreamFinished) and event.stream == self.streams.get("stdin"):
                self.queue.put_nowait(None)
            elif isinstance(event, GoneAway):
                self.transport.close()
        self.flush()

    def on_data(self, event: StreamData) -> None:
        if event.stream == self.streams.get("stdin"):
            self.queue.put_nowait(event.data)
        elif event.stream == self.streams.get("resize") and self.terminal >= 0:
            size = json.loads(event.data)
            packed = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
            fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, packed)

    def flush(self) -> None:
        out = self.session.take()
        if out and not self.transport.is_closing():
            self.transport.write(out)

    async def say(self, name: str, data: bytes, fin: bool = False) -> None:
        await self.writable.wait()
        if name in self.streams:
            self.session.send(self.streams[name], data, fin)
            self.flush()

    async def run(self) -> None:
        try:
            code = await (self.run_in_terminal() if self.asked.tty else self.run_piped())
            await self.say(Channel.ERROR.stream_type, exited(code), fin=True)
        except OSError as error:
            await self.say(Channel.ERROR.stream_type, failure(str(error)), fin=True)
        for name in ("stdout", "stderr"):
            await self.say(name, b"", fin=True)
        self.session.go_away()
        self.flush()
        self.transport.close()

    async def run_piped(self) -> int:
        pipe = asyncio.subprocess.PIPE
        stdin = pipe if "stdin" in self.streams else asyncio.subprocess.DEVNULL
        process = await begun(*self.asked.command, stdin=stdin, stdout=pipe, stderr=pipe)
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            feeding = asyncio.ensure_future(self.feed(process.stdin))
            await asyncio.gather(self.copy("stdout", process.stdout), self.copy("stderr", process.stderr))
            code = await process.wait()
            feeding.cancel()
            return code
        finally:
            await ended(process)

    async def feed(self, writer: asyncio.StreamWriter | None) -> None:
        while writer is not None:
            data = await self.queue.get()
            with suppress(ConnectionError):
                if data is None:
                    writer.close()
                    return
                writer.write(data)
                await writer.drain()

    async def copy(self, name: str, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(32768):
            await self.say(name, data)

    async def run_in_terminal(self) -> int:
        self.terminal, inner = os.openpty()
        try:
            process = await begun(*self.asked.command, stdin=inner, stdout=inner, stderr=inner)
        except asyncio.CancelledError:
            self.close_terminal()
            raise
        finally:
            os.close(inner)
        try:
            await self.talk_through_terminal()
            return await process.wait()
        finally:
            self.close_terminal()
            await ended(process)

    async def talk_through_terminal(self) -> None:
        reader = asyncio.StreamReader()
        file = os.fdopen(os.dup(self.terminal), "rb", buffering=0)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, file)
        except BaseException:
            file.close()
            raise
        feeding = asyncio.ensure_future(self.feed_terminal())
        try:
            with suppress(OSError):  # a terminal without a process is an error to read from
                await self.copy("stdout", reader)
        finally:
            feeding.cancel()
            transport.close()

    def close_terminal(self) -> None:
        os.close(self.terminal)
        self.terminal = -1

    async def feed_terminal(self) -> None:
        while True:
            data = await self.queue.get()
            if data is None:
                return
            os.write(self.terminal, data)
