"""A console: all sessions see the same bytes, one has the keyboard, and no slow session delays the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.base.clock import ManualClock
from tarmac.base.tasks import Tasks
from tarmac.runtimes.consoles.session import EscapeSequence
from tarmac.runtimes.fake.fakemachines import FakeMachine
from tarmac.runtimes.interface import TerminalSize, TooManyStreams
from tests.runtimes.consoles.people import Notes, Person, come


@pytest.fixture
async def machine() -> AsyncIterator[FakeMachine]:
    tasks = Tasks()
    made = FakeMachine(ManualClock(), tasks)
    made.begin(0)
    yield made
    made.gone()
    await tasks.close()


async def turns() -> None:
    """Let keyboards connect."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_two_watchers_and_a_writer_see_the_same_bytes(machine: FakeMachine) -> None:
    writer = come(machine.console, "ann")
    watchers = [come(machine.console, name, keyboard=False) for name in ("bob", "eve")]
    await turns()
    machine.guest.write(b"login: ")
    writer.stream.write(b"root\r")
    for each in (writer, *watchers):
        assert each.output_seen == b"login: root\r\n"
    assert machine.guest.typed == b"root\r"


async def test_the_first_notice_says_who_is_there_and_where(machine: FakeMachine) -> None:
    machine.guest.write(b"hello\n")
    ann = come(machine.console, "ann", recorded=True)
    bob = come(machine.console, "bob")
    assert ann.notices[0] == {
        "session": "session-of-ann", "attempt": 0, "offset": 0, "recorded": True, "keyboard": True,
        "writer": {"user": "ann", "since": "2027-01-15T08:00:00Z"},
    }  # fmt: skip
    assert bob.notices[0]["keyboard"] is False
    assert bob.notices[0]["writer"]["user"] == "ann"
    assert ann.notices[1:] == [{"joined": "bob", "watchers": 2}]


async def test_the_keyboard_goes_round_in_the_order_in_which_it_was_asked_for(machine: FakeMachine) -> None:
    ann, bob, eve = (come(machine.console, name) for name in ("ann", "bob", "eve"))
    watching = come(machine.console, "guest", keyboard=False)
    await turns()
    bob.stream.write(b"rm -rf /\r")
    watching.stream.write(b"reboot\r")
    assert machine.guest.typed == b""
    ann.stream.close()
    await turns()
    assert (bob.has_keyboard, eve.has_keyboard, watching.has_keyboard) == (True, False, False)
    bob.stream.write(b"ls\r")
    assert machine.guest.typed == b"ls\r"
    bob.stream.finish_input()
    assert (bob.has_keyboard, eve.has_keyboard) == (False, True)


async def test_a_takeover_session_gets_the_keyboard_and_returns_it(machine: FakeMachine) -> None:
    ann, bob = come(machine.console, "ann"), come(machine.console, "bob")
    root = come(machine.console, "root", takeover=True)
    await turns()
    assert (ann.has_keyboard, bob.has_keyboard, root.has_keyboard) == (False, False, True)
    ann.stream.write(b"x")
    root.stream.write(b"y")
    assert machine.guest.typed == b"y"
    root.stream.close()
    assert ann.has_keyboard


async def test_a_newcomer_sees_the_last_lines_and_no_half_of_one(machine: FakeMachine) -> None:
    machine.guest.write(b"".join(b"%0100d\n" % number for number in range(100)))
    ann = come(machine.console, "ann")
    assert ann.output_seen == b"".join(b"%0100d\n" % number for number in range(60, 100))
    assert ann.notices[0]["offset"] == 60 * 101


async def test_a_client_that_was_cut_off_resumes_with_nothing_missing(machine: FakeMachine) -> None:
    machine.guest.write(b"x" * 10_000)
    ann = come(machine.console, "ann", since=(0, 4_000))
    assert ann.output_seen == b"x" * 6_000
    assert ann.notices[0]["offset"] == 4_000


async def test_discarded_output_is_reported_as_a_gap(machine: FakeMachine) -> None:
    machine.guest.write(b"x" * 10_000)
    machine.guest.forget(9_000)
    ann = come(machine.console, "ann", since=(0, 4_000))
    assert ann.notices[1] == {"gap": 5_000, "offset": 9_000}
    assert ann.output_seen == b"x" * 1_000
    ahead = come(machine.console, "bob", since=(0, 99_999))
    assert ahead.output_seen == b""


async def test_a_stuck_watcher_holds_up_nobody_and_is_told_what_it_missed(machine: FakeMachine) -> None:
    ann, stuck = come(machine.console, "ann"), come(machine.console, "bob", keyboard=False)
    stuck.stream.read(False)
    for _ in range(10):
        machine.guest.write(b"y" * 1_000)
    for number in range(1_000):
        come(machine.console, f"visitor-{number}").stream.close()
    assert ann.output_seen == b"y" * 10_000
    assert (stuck.output_seen, len(stuck.notices)) == (b"", 1)
    machine.guest.forget(8_000)
    stuck.stream.read(True)
    assert stuck.output_seen == b"y" * 2_000
    assert stuck.notices[1:] == [
        {"keyboard": False, "writer": {"user": "ann", "since": "2027-01-15T08:00:00Z"}},
        {"gap": 8_000, "offset": 8_000},
    ]


async def test_sixteen_may_watch_and_no_more(machine: FakeMachine) -> None:
    people = [come(machine.console, f"user-{number}") for number in range(16)]
    with pytest.raises(TooManyStreams, match="16 people"):
        come(machine.console, "late")
    people[3].stream.close()
    come(machine.console, "late")


async def test_a_session_goes_on_in_the_next_process_and_an_attached_one_ends(machine: FakeMachine) -> None:
    ann = come(machine.console, "ann")
    attached = come(machine.console, "bob", attached=True)
    ann.stream.read(False)
    machine.guest.write(b"goodbye\n")
    machine.over()
    machine.begin(1)
    machine.guest.write(b"hello again\n")
    assert attached.ended == {"metadata": {}, "status": "Success"}
    ann.stream.read(True)
    machine.console.serve()
    assert ann.output_seen == b"goodbye\nhello again\n"
    assert {"attempt": 1, "offset": 0} in ann.notices
    await turns()
    ann.stream.write(b"k")
    assert machine.guest.typed == b"k"


async def test_sessions_end_with_the_machine(machine: FakeMachine) -> None:
    ann = come(machine.console, "ann")
    machine.gone()
    assert ann.ended is not None
    assert ann.ended["message"] == "the machine is gone"


async def test_through_attach_notices_are_lines_and_names_cannot_talk_to_the_terminal(machine: FakeMachine) -> None:
    come(machine.console, "ev\x1b[2Je")
    bob = come(machine.console, "bob", attached=True)
    assert bob.notices == []
    assert bob.output_seen == (
        "\r\n[tarmac: this session is not recorded; ev\ufffd[2Je has the keyboard since 08:00]\r\n".encode()
    )


async def test_an_echo_is_shown_before_the_timer_fires(machine: FakeMachine) -> None:
    machine.guest.echoes = False
    ann = come(machine.console, "ann")
    ann.stream.write(b"k")
    machine.guest.written += b"k"  # without an event, as from a file
    async with asyncio.timeout(5):
        while not ann.output_seen:
            await asyncio.sleep(0)
    assert ann.output_seen == b"k"


async def test_keys_typed_before_a_session_closed_reach_the_guest(machine: FakeMachine) -> None:
    bob = come(machine.console, "bob")
    bob.stream.write(b"reboot\r")
    bob.stream.close()  # before the keyboard was connected
    await turns()
    assert machine.guest.typed == b"reboot\r"


@pytest.mark.parametrize("keyboard", [True, False])
async def test_enter_tilde_dot_leaves_whoever_has_the_keyboard(machine: FakeMachine, keyboard: bool) -> None:
    bob = come(machine.console, "bob", attached=True, keyboard=keyboard)
    await turns()
    for key in (b"ls\r", b"~", b"."):
        bob.stream.write(key)
    assert bob.ended == {"metadata": {}, "status": "Success"}
    assert machine.guest.typed == (b"ls\r" if keyboard else b"")
    assert len(machine.console) == 0


@pytest.mark.parametrize(
    ("typed", "passed", "left"),
    [
        (b"~.", b"", True), (b"a~.b", b"a~.b", False), (b"a\r~~.b", b"a\r~.b", False), (b"\r~x", b"\r~x", False),
        (b"\n~.", b"\n", True), (b"~\r~.", b"~\r", True), (b"", b"", False),
    ],
)  # fmt: skip
def test_a_tilde_counts_at_the_beginning_of_a_line(typed: bytes, passed: bytes, left: bool) -> None:
    for size in (1, 2, 100):
        keys, sent = EscapeSequence(), b""
        for begin in range(0, len(typed), size):
            sent += keys.pass_on(typed[begin : begin + size])
        assert (sent, keys.left) == (passed, left)


@given(st.lists(st.sampled_from([b"~", b".", b"\r", b"a", b"xyz"])))
def test_the_escape_sequence_is_independent_of_chunk_boundaries(pieces: list[bytes]) -> None:
    def typed(parts: list[bytes]) -> tuple[bytes, bool]:
        keys, sent = EscapeSequence(), b""
        for part in parts:
            if not keys.left:
                sent += keys.pass_on(part)
        return sent, keys.left

    assert typed(pieces) == typed([b"".join(pieces)])


async def test_a_recording_has_what_was_seen_and_nothing_that_was_typed(machine: FakeMachine) -> None:
    notes = Notes()
    machine.guest.echoes = False
    ann = come(machine.console, "ann", record=lambda: notes)
    await turns()
    ann.stream.resize(TerminalSize(120, 40))
    ann.stream.write(b"secret\r")
    machine.guest.write(b"welcome\r\n")
    come(machine.console, "root", takeover=True)
    ann.stream.close()
    assert notes.events == [
        ("m", "has the keyboard"), ("r", (120, 40)), ("o", b"welcome\r\n"),
        ("m", "root has the keyboard"), ("m", "end"),
    ]  # fmt: skip


async def test_a_session_ends_when_its_recording_fails(machine: FakeMachine) -> None:
    ann = come(machine.console, "ann", record=lambda: Notes(full=True))
    machine.guest.write(b"hello\n")
    assert ann.output_seen == b""
    assert ann.ended is not None
    assert "cannot be recorded: No space left" in ann.ended["message"]

    def refuse() -> Notes:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        come(machine.console, "bob", record=refuse)
    assert len(machine.console) == 0


async def test_keys_wait_for_a_machine_that_is_just_starting_and_too_many_hold_up_who_types() -> None:
    clock, tasks = ManualClock(), Tasks()
    machine = FakeMachine(clock, tasks)
    there = False

    async def connect(*_told: object) -> object:
        if not there:
            raise FileNotFoundError
        return machine.guest

    machine.console.begin(0, machine.guest, connect)  # pyright: ignore[reportArgumentType]
    ann = Person(come(machine.console, "ann").stream)
    ann.stream.write(b"k" * 20_000)
    await turns()
    assert (ann.held, machine.guest.typed) == (1, b"")
    there = True
    clock.advance(0.2)
    await turns()
    assert (ann.held, machine.guest.typed) == (0, b"k" * 20_000)
    machine.gone()
    await tasks.close()
