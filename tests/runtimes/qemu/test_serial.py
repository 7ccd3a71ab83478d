"""The serial port of a machine becomes a log with every line once, for a kill between any two steps."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarmac.base.clock import ManualClock
from tarmac.base.tasks import background
from tarmac.runtimes.interface import RuntimeObjectNotFound
from tarmac.runtimes.qemu.serial import KEPT, SerialFiles, SerialLog, SerialLogs, connect_keyboard
from tarmac.runtimes.qemu.serial.log import MAX_LINE, log_lines
from tarmac.runtimes.qemu.serial.logs import INTERVAL

TIME = "2026-11-16T12:00:00.000000Z"
BYTES = st.lists(
    st.sampled_from([b"\r", b"\n", b"\r\n", b"a", b"\x1b[2J", b"\x00", b"\xff", b"x" * MAX_LINE, b"y" * 5000])
).map(b"".join)


@pytest.fixture(autouse=True)
def closed_by_the_kernel(tmp_path: Path) -> Iterator[None]:
    """Close files of killed agents: here they would stay open, in the process of all tests."""
    yield
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the listing's own descriptor is closed already
            if each.readlink().is_relative_to(tmp_path):
                os.close(int(each.name))


def files(folder: Path) -> SerialFiles:
    made = SerialFiles(folder / "serial.raw", folder / "serial.position", folder / "0.log")
    made.raw.touch()
    return made


def write(place: SerialFiles, data: bytes) -> None:
    with place.raw.open("ab") as raw:
        raw.write(data)


def text_of(log: bytes) -> bytes:
    """Return the log as its reader sees it: parts joined, lines ended."""
    shown = b""
    for line in log.split(b"\n")[:-1]:
        _, stream, tag, content = line.split(b" ", 3)
        assert stream == b"stdout"
        assert len(content) <= MAX_LINE
        shown += content + (b"\n" if tag == b"F" else b"")
    return shown


def lines_of(log: bytes) -> list[bytes]:
    return [each.partition(b"stdout ")[2] for each in log.split(b"\n")[:-1]]


# ---- lines


def test_a_line_ends_with_its_newline_and_a_cr_before_that_is_cut() -> None:
    text, taken = log_lines(b"one\r\ntwo\n\r\nthr", TIME, "wait")
    assert lines_of(text) == [b"F one", b"F two", b"F "]
    assert taken == len(b"one\r\ntwo\n\r\n")


def test_an_unfinished_line_is_logged_as_a_part() -> None:
    text, taken = log_lines(b"login: \r", TIME, "part")
    assert (lines_of(text), taken) == ([b"P login: "], len(b"login: "))
    assert log_lines(b"\r", TIME, "part") == (b"", 0)
    assert lines_of(log_lines(b"\rroot\r\n", TIME, "wait")[0]) == [b"F \rroot"]


def test_the_last_words_of_a_machine_are_a_line() -> None:
    text, taken = log_lines(b"Kernel panic\r", TIME, "line")
    assert (lines_of(text), taken) == ([b"F Kernel panic"], len(b"Kernel panic\r"))


@pytest.mark.parametrize("length", [MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, 2 * MAX_LINE, 2 * MAX_LINE + 1])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_long_lines_come_in_parts(length: int, end: bytes) -> None:
    text, taken = log_lines(b"x" * length + end + b"next\n", TIME, "wait")
    parts = lines_of(text)
    assert taken == length + len(end) + 5
    assert [len(each) - 2 for each in parts[:-2]] == [MAX_LINE] * ((length - 1) // MAX_LINE)
    assert text_of(text) == b"x" * length + b"\nnext\n"


@settings(deadline=None)
@given(BYTES, st.data())
def test_a_log_says_the_same_however_the_bytes_arrive(data: bytes, draw: st.DataObject) -> None:
    log, begin, end = b"", 0, 0
    while end < len(data):
        end = min(len(data), end + draw.draw(st.integers(1, 40_000)))
        text, taken = log_lines(data[begin:end], TIME, draw.draw(st.sampled_from(["wait", "part"])))
        log, begin = log + text, begin + taken
    log += log_lines(data[begin:], TIME, "line")[0]
    whole = data.removesuffix(b"\r").replace(b"\r\n", b"\n")
    assert text_of(log).removesuffix(b"\n") == whole.removesuffix(b"\n")


# ---- following


def test_lines_go_to_the_log_as_they_come_and_unfinished_ones_after_a_second(tmp_path: Path) -> None:
    place, clock = files(tmp_path), ManualClock()
    log = SerialLog(place, clock)
    write(place, b"boot\r\nlogin: ")
    assert not log.poll()
    assert lines_of((tmp_path / "0.log").read_bytes()) == [b"F boot"]
    clock.advance(0.9)
    log.poll()
    clock.advance(0.2)
    log.poll()
    assert lines_of((tmp_path / "0.log").read_bytes()) == [b"F boot", b"P login: "]
    write(place, b"root\r\n")
    log.poll()
    assert text_of((tmp_path / "0.log").read_bytes()) == b"boot\nlogin: root\n"


def test_output_missed_without_an_agent_is_logged_first(tmp_path: Path) -> None:
    place, clock = files(tmp_path), ManualClock()
    first = SerialLog(place, clock)
    write(place, b"one\ntw")
    first.poll()
    first.close()
    write(place, b"o\nthree\n")
    second = SerialLog(place, clock)
    second.poll()
    assert lines_of((tmp_path / "0.log").read_bytes()) == [b"F one", b"F two", b"F three"]


def test_taken_blocks_are_given_back_and_the_last_ones_stay(tmp_path: Path) -> None:
    place = files(tmp_path)
    log = SerialLog(place, ManualClock())
    data = b"".join(b"%063d\n" % number for number in range(32 * 1024))
    write(place, data)
    while log.poll():
        pass
    status = place.raw.stat()
    assert status.st_size == len(data) == log.offset
    assert status.st_blocks * 512 <= KEPT + 128 * 1024
    assert log.read(log.kept_from, len(data)) == data[log.kept_from :]
    assert len(data) - log.kept_from >= KEPT


def test_a_log_that_was_set_aside_is_followed_by_a_new_one(tmp_path: Path) -> None:
    place, clock = files(tmp_path), ManualClock()
    log = SerialLog(place, clock)
    write(place, b"one\n")
    log.poll()
    (tmp_path / "0.log").rename(tmp_path / "0.log.20261116-120000")
    write(place, b"two\n")
    log.poll()
    log.reopen()
    write(place, b"three\n")
    log.poll()
    assert lines_of((tmp_path / "0.log.20261116-120000").read_bytes()) == [b"F one", b"F two"]
    assert lines_of((tmp_path / "0.log").read_bytes()) == [b"F three"]


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = files(tmp_path)
    log = SerialLog(place, ManualClock())
    write(place, b"one\ntwo\n")
    real = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, data: real(file, data[:30]))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        with pytest.raises(OSError, match="no room"):
            log.poll()
    log.poll()
    assert lines_of((tmp_path / "0.log").read_bytes()) == [b"F one", b"F two"]


class Killed(BaseException):
    """An exception that no handler of Exception catches."""


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """End before the step of this number that changes the disk."""
    numbers = count()

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if next(numbers) == step:
                raise Killed
            return real(*args, **kwargs)

        return call

    for name in ("write", "pwrite", "open", "truncate", "rename"):
        monkeypatch.setattr(os, name, dying(getattr(os, name)))
    monkeypatch.setattr(
        "tarmac.runtimes.qemu.serial.log._punch_hole",
        dying(lambda *_args: None),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    )


def one_life(place: SerialFiles, clock: ManualClock) -> None:
    """The agent's work with a machine: adopt, follow, rotate the log, follow, see a prompt, end."""
    log = SerialLog(place, clock)
    log.poll()
    if place.log is not None and place.log.exists():
        os.rename(place.log, f"{place.log}.{len(list(place.log.parent.iterdir())):04d}")
    log.reopen()
    log.poll()
    clock.advance(2)
    log.poll()


@pytest.mark.parametrize("first", range(16))
def test_no_line_is_lost_or_doubled_by_a_kill_between_any_two_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    for second in range(16):
        folder = tmp_path / str(second)
        folder.mkdir()
        place, clock, said = files(folder), ManualClock(), b""
        for life, step in enumerate((first, second, 10_000)):
            said += b"line %d\r\nprompt %d" % (life, life)
            write(place, b"line %d\r\nprompt %d" % (life, life))
            with monkeypatch.context() as dying:
                killed_at(step, dying)
                try:
                    one_life(place, clock)
                except Killed:
                    continue
        last = SerialLog(place, clock)
        while last.finish():
            pass
        logs = [*sorted(folder.glob("0.log.*")), folder / "0.log"]
        shown = b"".join(each.read_bytes() for each in logs)
        assert text_of(shown).removesuffix(b"\n") == said.replace(b"\r\n", b"\n")


# ---- all of them


async def test_a_flooding_machine_does_not_delay_the_logs_of_others(tmp_path: Path) -> None:
    logs, places = SerialLogs(ManualClock()), dict[str, SerialFiles]()
    for name in ("flood", "quiet"):
        (tmp_path / name).mkdir()
        places[name] = files(tmp_path / name)
        logs.follow(name, places[name])
    write(places["flood"], b"y\n" * 500_000)
    write(places["quiet"], b"hello\n")
    await logs.poll()
    assert lines_of((tmp_path / "quiet" / "0.log").read_bytes()) == [b"F hello"]
    assert (tmp_path / "flood" / "0.log").read_bytes().count(b"F y\n") < 500_000
    await logs.finish("flood")
    assert (tmp_path / "flood" / "0.log").read_bytes().count(b"F y\n") == 500_000
    logs.release("flood")
    with pytest.raises(RuntimeObjectNotFound):
        logs.reopen("flood")


async def test_the_timer_takes_up_what_is_new(tmp_path: Path) -> None:
    clock, place = ManualClock(), files(tmp_path)
    logs = SerialLogs(clock)
    logs.follow("one", place)
    write(place, b"hello\n")
    async with background(logs.run(), "serial"):
        async with asyncio.timeout(5):
            while not (tmp_path / "0.log").stat().st_size:
                clock.advance(INTERVAL)
                await asyncio.sleep(0)
    assert lines_of((tmp_path / "0.log").read_bytes()) == [b"F hello"]


# ---- the keyboard


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    path = tmp_path / "serial.in"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield path, reading
    os.close(reading)


async def test_keys_arrive_until_the_guest_has_gone(tmp_path: Path) -> None:
    path, gone = tmp_path / "serial.in", asyncio.Event()
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    keyboard = await connect_keyboard(path, os.getuid(), lambda _held: None, gone.set)
    keyboard.press(b"ls\r")
    assert os.read(reading, 10) == b"ls\r"
    os.close(reading)
    async with asyncio.timeout(5):
        await gone.wait()
    keyboard.press(b"lost")


async def test_keys_that_a_guest_does_not_take_hold_up_whoever_types_and_hanging_up_is_immediate(
    pipe: tuple[Path, int],
) -> None:
    path, reading = pipe
    held: list[bool] = []
    keyboard = await connect_keyboard(path, os.getuid(), held.append, lambda: None)
    while not held:
        keyboard.press(b"k" * 65536)
        await asyncio.sleep(0)
    keyboard.close()
    await asyncio.sleep(0)
    while os.read(reading, 1 << 20):  # the rest of the kernel's buffer, then the end
        pass
    assert held[0] is True


async def test_keys_are_written_only_to_a_pipe_of_the_machine(tmp_path: Path, pipe: tuple[Path, int]) -> None:
    path, _ = pipe
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(path)
    for each, user in ((tmp_path / "file", os.getuid()), (tmp_path / "link", os.getuid()), (path, os.getuid() + 1)):
        with pytest.raises(OSError, match=r"something else|symbolic links"):
            await connect_keyboard(each, user, lambda _held: None, lambda: None)
