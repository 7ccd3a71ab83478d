"""A display: messages of viewers are parsed, and only the owner of the keyboard changes anything."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from tarmac.runtimes.consoles import Display
from tarmac.runtimes.consoles.rfb import MAX_CUT_TEXT, NotRfb, ViewerMessages
from tarmac.runtimes.interface import RuntimeRefused, SessionOptions, TooManyStreams
from tests.runtimes.consoles.people import Notes, Person

OPENING = b"RFB 003.008\n\x01\x00"
PIXELS = b"\x00" + bytes(19)
ENCODINGS = struct.pack(">BxHii", 2, 2, 0, -223)
REFRESH = struct.pack(">BBHHHH", 3, 1, 0, 0, 640, 480)
KEY = struct.pack(">BBxxI", 4, 1, 0x61)
POINTER = struct.pack(">BBHH", 5, 1, 10, 20)
CUT_TEXT = struct.pack(">BxxxI", 6, 5) + b"paste"
EXTENDED_CUT_TEXT = struct.pack(">BxxxiI", 6, -4, 0x01000001)
QEMU_KEY = struct.pack(">BBHII", 255, 0, 1, 0x61, 30)
DESKTOP_SIZE = struct.pack(">BxHHBx", 251, 800, 600, 1) + bytes(16)
QUESTIONS = [PIXELS, ENCODINGS, REFRESH]
CHANGES = [KEY, POINTER, CUT_TEXT, EXTENDED_CUT_TEXT, QEMU_KEY, DESKTOP_SIZE]


def viewer() -> ViewerMessages:
    made = ViewerMessages()
    assert made.pass_on(OPENING, may_change=False) == OPENING[:-1] + b"\x01"  # other viewers are never disconnected
    return made


@given(st.lists(st.sampled_from(QUESTIONS + CHANGES)), st.lists(st.integers(1, 30)))
def test_input_of_view_only_sessions_is_dropped_at_any_chunk_boundary(messages: list[bytes], cuts: list[int]) -> None:
    sent, watching, writing, begin = b"".join(messages), viewer(), viewer(), 0
    passed = {False: b"", True: b""}
    for cut in [*cuts, len(sent)]:
        piece, begin = sent[begin : begin + cut], begin + cut
        passed[False] += watching.pass_on(piece, may_change=False)
        passed[True] += writing.pass_on(piece, may_change=True)
    assert passed[True] == sent
    assert passed[False] == b"".join(each for each in messages if each in QUESTIONS)


def test_a_message_belongs_to_who_had_the_keyboard_when_it_began() -> None:
    messages = viewer()
    assert messages.pass_on(CUT_TEXT[:9], may_change=False) == b""
    assert messages.pass_on(CUT_TEXT[9:] + KEY, may_change=True) == KEY
    assert messages.pass_on(CUT_TEXT[:9], may_change=True) == CUT_TEXT[:9]
    assert messages.pass_on(CUT_TEXT[9:] + KEY, may_change=False) == CUT_TEXT[9:]


def test_the_oldest_version_has_no_choice_of_security() -> None:
    assert ViewerMessages().pass_on(b"RFB 003.003\n\x00" + REFRESH, may_change=False)[-10:] == REFRESH


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"GET / HTTP/1.1\r\n", "no version"),
        (b"RFB 009.009\n", "no version"),
        (b"RFB 003.008\n\x02", "way to authenticate"),
        (OPENING + b"\x01", "unknown kind 1"),
        (OPENING + b"\xff\x01", "of QEMU's"),
        (OPENING + struct.pack(">BxxxI", 6, MAX_CUT_TEXT + 1), "most"),
        (OPENING + struct.pack(">BxxxI", 6, 1 << 30), "1073741824 bytes"),
        (OPENING + struct.pack(">Bxxxi", 6, -(1 << 31)), "2147483648 bytes"),
    ],
)
@pytest.mark.parametrize("may_change", [True, False])
def test_an_invalid_viewer_message_ends_the_session(sent: bytes, why: str, may_change: bool) -> None:
    with pytest.raises(NotRfb, match=why):
        ViewerMessages().pass_on(sent, may_change=may_change)


@given(st.booleans(), st.lists(st.one_of(st.binary(max_size=50), st.sampled_from(QUESTIONS + CHANGES)), max_size=30))
def test_no_bytes_do_anything_but_be_passed_on_or_refused(open_first: bool, sent: list[bytes]) -> None:
    messages = viewer() if open_first else ViewerMessages()
    try:
        for each in sent:
            assert len(messages.pass_on(each, may_change=True)) <= len(each) + 20
    except NotRfb:
        return


# ---- sessions


class Server:
    """QEMU's side: sends its greeting, records the input."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.writers)
        self.writers.append(writer)
        self.heard.append(b"")
        writer.write(b"RFB 003.008\n")
        while data := await reader.read(65536):
            self.heard[number] += data
        writer.close()


@pytest.fixture
async def screen(tmp_path: Path) -> AsyncIterator[tuple[Display, Server]]:
    async with a_screen(tmp_path) as made:
        yield made


@asynccontextmanager
async def a_screen(tmp_path: Path) -> AsyncGenerator[tuple[Display, Server]]:
    path, server = str(tmp_path / "vnc.sock"), Server()
    listening = await asyncio.start_unix_server(server.serve, path)
    loop = asyncio.get_running_loop()
    display = Display(lambda factory: loop.create_unix_connection(factory, path))
    yield display, server
    display.close()
    listening.close()
    for each in server.writers:
        each.close()


async def look(display: Display, **options: Any) -> Person:
    given: dict[str, Any] = {"user": "ann", "session": "s", "keyboard": True, **options}
    return Person(await display.open(SessionOptions(**given)))


async def until(true: Any) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.001)


async def test_each_viewer_has_its_own_connection_and_one_has_the_keyboard(screen: tuple[Display, Server]) -> None:
    display, server = screen
    ann, bob = await look(display), await look(display, user="bob")
    viewing = await look(display, user="eve", keyboard=False)
    await until(lambda: all(each.output_seen for each in (ann, bob, viewing)))
    for each in (ann, bob, viewing):
        each.stream.write(OPENING + REFRESH + KEY + POINTER)
    passed = OPENING[:-1] + b"\x01" + REFRESH
    await until(lambda: [len(each) for each in server.heard] == [len(passed) + 14, len(passed), len(passed)])
    ann.stream.close()
    bob.stream.write(KEY)
    viewing.stream.write(KEY + REFRESH)
    await until(lambda: server.heard[1:] == [passed + KEY, passed + REFRESH])


def test_output_of_qemu_before_the_viewer_attaches_is_kept(tmp_path: Path) -> None:
    """The agents' event loop reads as soon as it is connected."""

    async def greeted() -> bytes:
        async with a_screen(tmp_path) as (display, _):
            session = await display.open(SessionOptions(user="ann", session="s", keyboard=False))
            await asyncio.sleep(0.05)  # QEMU has sent its greeting
            ann = Person(session)
            await until(lambda: ann.output_seen)
            return ann.output_seen

    assert uvloop.run(greeted()) == b"RFB 003.008\n"


async def test_garbage_ends_the_session_and_says_why(screen: tuple[Display, Server]) -> None:
    display, server = screen
    notes = Notes()
    ann = await look(display, record=lambda: notes)
    ann.stream.write(OPENING + struct.pack(">BxxxI", 6, 1 << 30) + b"x" * 1000)
    assert ann.ended is not None
    assert "cut text of 1073741824 bytes" in ann.ended["message"]
    ann.stream.write(KEY)
    assert len(display) == 0
    assert notes.events == [("m", "has the keyboard"), ("m", "end")]
    assert all(b"xxx" not in each for each in server.heard)


async def test_eight_may_look_and_no_more(screen: tuple[Display, Server]) -> None:
    display, _ = screen
    people = [await look(display) for _ in range(8)]
    with pytest.raises(TooManyStreams):
        await look(display)
    people[0].stream.close()
    await look(display)


async def test_a_viewer_that_takes_nothing_is_not_read_for(screen: tuple[Display, Server]) -> None:
    display, server = screen
    ann = await look(display)
    await until(lambda: ann.output_seen)
    ann.stream.read(False)
    server.writers[0].write(b"p" * 10_000_000)
    for _ in range(500):
        await asyncio.sleep(0)
    assert len(ann.output_seen) < 1_000_000
    ann.stream.read(True)
    await until(lambda: len(ann.output_seen) > 10_000_000)


async def test_a_machine_without_a_screen_says_so(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    display = Display(lambda factory: loop.create_unix_connection(factory, str(tmp_path / "none.sock")))
    with pytest.raises(RuntimeRefused, match="cannot be reached"):
        await look(display)
    assert len(display) == 0


async def test_the_end_of_the_machine_is_the_end_of_its_viewers(screen: tuple[Display, Server]) -> None:
    display, server = screen
    ann = await look(display)
    await until(lambda: ann.output_seen)
    server.writers[0].transport.abort()
    await until(lambda: ann.ended is not None)
    assert len(display) == 0
