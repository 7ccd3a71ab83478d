"""QEMU's monitor: encoded and decoded messages, and a client against a fake monitor."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarmac.runtimes.interface.errors import RuntimeRefused, RuntimeUnreachable
from tarmac.runtimes.qemu.monitor import connected
from tarmac.runtimes.qemu.qmp import (
    MAX_LINE,
    CommandFailure,
    CommandResult,
    Greeting,
    MalformedMessage,
    QmpEvent,
    QmpLineSplitter,
    decode_message,
    encode_command,
)

GREETING = {"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": ""}, "capabilities": ["oob"]}}
SHUTDOWN = {
    "timestamp": {"seconds": 1, "microseconds": 2},
    "event": "SHUTDOWN",
    "data": {"guest": True, "reason": "guest-shutdown"},
}


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\r\n"


def test_messages_are_told_apart() -> None:
    assert decode_message(line(GREETING)) == Greeting((7, 2, 22))
    assert decode_message(line({"return": {}, "id": 3})) == CommandResult(3, {})
    assert decode_message(line({"return": None, "id": 3})) == CommandResult(3, None)
    refused = {"error": {"class": "GenericError", "desc": "no"}, "id": 4}
    assert decode_message(line(refused)) == CommandFailure(4, "GenericError", "no")
    assert decode_message(line(SHUTDOWN)) == QmpEvent("SHUTDOWN", {"guest": True, "reason": "guest-shutdown"})


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"{", b'{"return": 1}', b'{"event": 3}', b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_message_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_message(text)


@settings(deadline=None)
@given(st.binary())
def test_no_bytes_do_anything_but_be_read_or_refused(data: bytes) -> None:
    try:
        for each in QmpLineSplitter().feed(data + b"\n"):
            decode_message(each)
    except MalformedMessage:
        return


@settings(deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=40), max_size=20))
def test_lines_are_the_same_however_they_arrive(cuts: list[int]) -> None:
    text, lines, found, begin = (
        b"".join(line({"return": n, "id": n}) for n in range(9)),
        QmpLineSplitter(),
        list[bytes](),
        0,
    )
    for cut in [*cuts, len(text)]:
        found += lines.feed(text[begin : begin + cut])
        begin += cut
    assert [decode_message(each) for each in found] == [CommandResult(n, n) for n in range(9)]


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    lines = QmpLineSplitter()
    assert list(lines.feed(b"x" * MAX_LINE)) == []
    with pytest.raises(MalformedMessage):
        list(lines.feed(b"x"))


def test_commands_carry_their_number() -> None:
    body = {"execute": "block_resize", "id": 7, "arguments": {"size": 5}}
    assert json.loads(encode_command("block_resize", 7, {"size": 5})) == body
    assert json.loads(encode_command("cont", 8)) == {"execute": "cont", "id": 8}


class PlayedMachine:
    """A fake monitor with the test's responses, which keeps the descriptors of commands."""

    def __init__(self, answer: Callable[[PlayedMachine, dict[str, Any]], Any]) -> None:
        self._answer = answer
        self.heard: list[QmpEvent] = []
        self.asked: list[str] = []
        self.descriptors: list[int] = []
        self._end: socket.socket

    def say(self, *messages: Any) -> None:
        for message in messages:
            self._end.sendall(message if isinstance(message, bytes) else line(message))

    async def serve(self, listening: socket.socket) -> None:
        loop, lines = asyncio.get_running_loop(), QmpLineSplitter()
        self._end, _ = await loop.sock_accept(listening)
        self._end.setblocking(False)
        with self._end:
            self.say(GREETING)
            while data := await self._receive():
                for each in lines.feed(data):
                    command = json.loads(each)
                    self.asked.append(command["execute"])
                    if command["execute"] == "qmp_capabilities":
                        self.say({"return": {}, "id": command["id"]})
                    elif self._answer(self, command) == "hang up":
                        return

    async def _receive(self) -> bytes:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._end, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._end)
        data, descriptors, _, _ = socket.recv_fds(self._end, 1 << 16, 4)
        self.descriptors += descriptors
        return data


@asynccontextmanager
async def playing(
    answer: Callable[[PlayedMachine, dict[str, Any]], Any], patience: float = 5
) -> AsyncGenerator[tuple[PlayedMachine, Any]]:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        path = str(Path(folder) / "qmp.sock")
        listening.bind(path)
        listening.listen()
        listening.setblocking(False)
        played = PlayedMachine(answer)
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(played.serve(listening))
            async with connected(path, played.heard.append, patience) as monitor:
                yield played, monitor
            serving.cancel()


def status(played: PlayedMachine, command: dict[str, Any]) -> None:
    played.say({"return": {"status": "running"}, "id": command["id"]})


async def test_a_command_is_answered_after_the_greeting() -> None:
    async with playing(status) as (played, monitor):
        assert await monitor.execute("query-status") == {"status": "running"}
        assert played.asked == ["qmp_capabilities", "query-status"]


async def test_events_are_heard_in_order_and_between_answers() -> None:
    def answer(played: PlayedMachine, command: dict[str, Any]) -> None:
        played.say(SHUTDOWN, {"event": "STOP"}, {"return": 1, "id": command["id"]}, {"event": "RESUME"})

    async with playing(answer) as (played, monitor):
        assert await monitor.execute("query-status") == 1
        await monitor.execute("query-status")
        assert [each.name for each in played.heard][:3] == ["SHUTDOWN", "STOP", "RESUME"]


async def test_a_refusal_has_the_words_of_qemu() -> None:
    def answer(played: PlayedMachine, command: dict[str, Any]) -> None:
        played.say({"error": {"class": "GenericError", "desc": "Bus 'x' not found"}, "id": command["id"]})

    async with playing(answer) as (_, monitor):
        with pytest.raises(RuntimeRefused, match="Bus 'x' not found"):
            await monitor.execute("device_add", {"bus": "x"})


async def test_an_answer_that_comes_too_late_is_nobodys_and_the_next_question_gets_its_own() -> None:
    late: list[int] = []

    def answer(played: PlayedMachine, command: dict[str, Any]) -> None:
        if not late:
            late.append(command["id"])
            return
        played.say({"return": "late", "id": late[0]}, {"return": "mine", "id": command["id"]})

    async with playing(answer, patience=1) as (_, monitor):
        with pytest.raises(RuntimeUnreachable, match="has not answered"):
            await monitor.execute("query-status")
        assert await monitor.execute("query-status") == "mine"


async def test_a_question_that_is_given_up_leaves_the_connection_usable() -> None:
    asked = asyncio.Event()

    def answer(played: PlayedMachine, command: dict[str, Any]) -> None:
        if asked.is_set():
            status(played, command)
        asked.set()

    async with playing(answer) as (_, monitor):
        given_up = asyncio.ensure_future(monitor.execute("query-status"))
        await asked.wait()
        given_up.cancel()
        await asyncio.wait([given_up])
        assert await monitor.execute("query-status") == {"status": "running"}


async def test_many_may_ask_at_once() -> None:
    def answer(played: PlayedMachine, command: dict[str, Any]) -> None:
        played.say({"return": command["arguments"]["n"], "id": command["id"]})

    async with playing(answer) as (_, monitor):
        found = await asyncio.gather(*(monitor.execute("query-status", {"n": n}) for n in range(20)))
        assert found == list(range(20))


async def test_a_machine_that_ends_is_unreachable_for_those_who_wait_and_for_all_after() -> None:
    async with playing(lambda played, command: "hang up") as (_, monitor):
        for _ in range(2):
            with pytest.raises(RuntimeUnreachable, match="closed the connection"):
                await monitor.execute("query-status")


async def test_a_protocol_violation_ends_the_connection() -> None:
    async with playing(lambda played, command: played.say(b"HTTP/1.1 400 Bad Request\r\n")) as (_, monitor):
        with pytest.raises(RuntimeUnreachable, match="not a message"):
            await monitor.execute("query-status")


async def test_descriptors_travel_with_their_command() -> None:
    async with playing(status) as (played, monitor):
        read, write = os.pipe()
        try:
            await monitor.execute("add-fd", {"fdset-id": 7}, [write])
            (arrived,) = played.descriptors
            os.write(arrived, b"hello")
            assert os.read(read, 5) == b"hello"
            os.close(arrived)
        finally:
            os.close(read)
            os.close(write)


async def test_a_socket_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnreachable, match="cannot be reached"):
        async with connected(str(tmp_path / "none"), lambda event: None):
            pass
