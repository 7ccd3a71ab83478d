"""The line discipline of a simulated terminal, and input without one."""

from __future__ import annotations

import asyncio

from tarmac.sim.sessions.terminal import MAX_UNREAD, QUEUE, Terminal


class Screen:
    """A terminal and the output that its client got."""

    def __init__(self, tty: bool = True) -> None:
        self.seen = b""
        self.held: list[bool] = []
        self.terminal = Terminal(tty, self._put, self.held.append)

    def _put(self, data: bytes, error: bool) -> None:
        self.seen += b"!" + data if error else data


async def test_keys_are_echoed_and_edited() -> None:
    screen = Screen()
    screen.terminal.feed("lé\x7fs\x1b[A x\x15ls\r".encode())
    assert await screen.terminal.read_line() == b"ls"
    assert screen.seen.endswith(b"ls\r\n")
    assert b"\x1b[A" not in screen.seen


async def test_ctrl_c_drops_the_line_and_calls_the_handler() -> None:
    screen, called = Screen(), list[bool]()
    screen.terminal.interrupted = lambda: called.append(True)
    screen.terminal.feed(b"half\x03whole\r")
    assert await screen.terminal.read_line() == b"whole"
    assert (called, screen.seen) == ([True], b"half^C\r\nwhole\r\n")


async def test_ctrl_d_ends_the_input_of_an_empty_line_only() -> None:
    screen = Screen()
    screen.terminal.feed(b"a\x04b\r\x04")
    assert [await screen.terminal.read_line() for _ in range(2)] == [b"ab", None]
    screen.terminal.reopen()
    screen.terminal.feed(b"again\r")
    assert await screen.terminal.read_line() == b"again"


async def test_a_terminal_keeps_no_more_keys_than_a_kernel() -> None:
    screen = Screen()
    screen.terminal.feed(b"x" * 10 * QUEUE)
    screen.terminal.feed(b"y\r")
    screen.terminal.end()
    assert len(await screen.terminal.read_line() or b"") <= QUEUE


async def test_without_a_terminal_a_fast_client_is_held_until_its_input_is_read() -> None:
    screen = Screen(tty=False)
    screen.terminal.feed(b"first\n" + b"x" * MAX_UNREAD)
    assert screen.held == [True]
    assert await screen.terminal.read_line() == b"first"
    screen.terminal.end()
    assert len(await screen.terminal.read_all(1_000_000)) == MAX_UNREAD
    assert screen.held == [True, False]


async def test_output_waits_until_the_client_accepts_it() -> None:
    screen = Screen()
    screen.terminal.accept(False)
    writing = asyncio.ensure_future(screen.terminal.write(b"a\nb\n"))
    await asyncio.sleep(0)
    assert not writing.done()
    screen.terminal.accept(True)
    await writing
    assert screen.seen == b"a\r\nb\r\n"


async def test_errors_are_apart_without_a_terminal_only() -> None:
    apart, together = Screen(tty=False), Screen()
    for each in (apart, together):
        await each.terminal.write(b"no", error=True)
    assert (apart.seen, together.seen) == (b"!no", b"no")
