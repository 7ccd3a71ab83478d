"""`tarmac logs` of many streams, one of them from a stolen node: all other ones arrive, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.cli.logs import merging, reading
from tarmac.cli.logs.lines import LogSource
from tarmac.cli.logs.loglines import LogLines
from tarmac.cli.logs.merging import Hold, Shown, merged
from tarmac.cli.logs.reading import Asked, LogStream, _date
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.transport import ClientRequest, Reply, StreamReply
from tests.attacking import TWICE
from tests.cli.test_hostile_words import commands

STAMP = b"2026-11-15T12:00:00.000000000Z "
HONEST = STAMP + b"honest\n"
MEGABYTE = 1 << 20


class Nodes:
    """Logs by the name of the instance: chunks, and whether the response ends after them."""

    def __init__(self, *, date: str = "", **logs: tuple[list[bytes], bool]) -> None:
        self._logs, self._date = logs, date

    async def request(self, request: ClientRequest) -> Reply:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, request: ClientRequest) -> AsyncGenerator[StreamReply]:
        chunks, ends = self._logs[request.path.split("/")[-2]]

        async def answer() -> AsyncIterator[bytes]:
            for chunk in chunks:
                await asyncio.sleep(0)
                yield chunk
            if not ends:
                await asyncio.Event().wait()

        yield StreamReply(200, {"date": self._date}, answer())

    async def close(self) -> None:
        return None


def client(nodes: Nodes) -> Client:
    return Client(nodes, SystemClock(), Randomness(1))


def source(name: str) -> LogSource:
    return LogSource("DFW", name, "main", "default")


async def read(nodes: Nodes, name: str) -> AsyncIterator[list[reading.LogLine]]:
    try:
        async for lines in LogStream(client(nodes), source(name), Asked()).read():
            yield lines
    except ClientError:
        return


HOSTILE: dict[str, list[bytes]] = {
    "nothing": [],
    "no line end": [b"x" * MEGABYTE] * 3,
    "no time": [b"x\n" * 50_000],
    "empty lines": [b"\n" * 100_000],
    "one byte at a time": [bytes([each]) for each in STAMP * 200],
    "a time of next century": [b"2199-01-01T00:00:00.000000000Z x\n"],
    "a time that is none": [b"9999-99-99T99:99:99.999999999Z x\n"],
    "times in reverse": [b"2026-11-15T12:00:%02d.000000000Z x\n" % n for n in range(59, 0, -1)],
    "a time of a megabyte": [b"2026-11-15T12:00:00." + b"9" * MEGABYTE + b"Z x\n"],
    "a zone of nonsense": [b"2026-11-15T12:00:00+99:99 x\n"],
    "a year of nothing": [b"0000-00-00T00:00:00Z x\n"],
    "bytes that are no text": [bytes(range(256)) * 100],
    "terminal sequences": [STAMP + b"\x1b]0;evil\x07\x1b[2J\x9b2J\x1b]52;c;aGk=\x07\n"],
    "carriage returns": [STAMP + b"evil\rhonest node | \n"],
    "text direction": [STAMP + "\u202e\u2066evil\n".encode()],
    "lines of another": [STAMP + b"x\nSEA other-0 | forged\n"],
    "line ends of Unicode": [STAMP + "a\u2028SEA other-0 | forged\x85b\n".encode()],
    "backspaces": [STAMP + b"evil" + b"\b" * 200 + b"\n"],
    "NULs": [b"\0" * MEGABYTE],
    "the same line": [HONEST * 20_000],
}


@pytest.mark.parametrize("ends", [True, False], ids=["that ends", "that does not"])
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_log_keeps_no_other_back(monkeypatch: pytest.MonkeyPatch, name: str, ends: bool) -> None:
    monkeypatch.setattr(reading, "SILENCE_TIMEOUT", 0.2)
    nodes = Nodes(evil=(HOSTILE[name], ends), good=([HONEST], True))
    found = list[Shown]()
    async with asyncio.timeout(20):
        async for some in merged([(source(each), read(nodes, each)) for each in ("evil", "good")]):
            found += some
    assert ("good", "honest") in [(of.instance, line.text) for of, line in found]
    lines = LogLines(terminal=True, colour=False, prefix=True, timestamps=False)
    lines.introduce([source("evil"), source("good")])
    shown = lines.text(found)
    assert commands(shown.replace("\n", "").replace("\t", "").replace("\x1b[0m", "")) == []
    assert {line.split()[1] for line in shown.split("\n") if line.strip()} <= {"evil", "good"}


@TWICE
async def test_a_log_without_data(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    monkeypatch.setattr(reading, "SILENCE_TIMEOUT", 0.2 if defended else None)
    nodes, found = Nodes(evil=([], False), good=([HONEST], True)), list[Shown]()
    try:
        async with asyncio.timeout(2):
            async for some in merged([(source(each), read(nodes, each)) for each in ("evil", "good")]):
                found += some
    except TimeoutError:
        pass
    assert bool(found) is defended


@TWICE
async def test_lines_of_one_moment_without_end(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(reading, "MAX_RECENT", 10**12)
    stream = LogStream(client(Nodes(evil=([(STAMP + b"x" * 1000 + b"\n") * 1000] * 60, True))), source("evil"), Asked())
    async for _ in stream.read():
        pass
    kept = sum(len(line.text) for line in stream._recent)  # pyright: ignore[reportPrivateUsage]
    assert (kept <= 32 * MEGABYTE) is defended


@TWICE
def test_long_lines_that_wait_for_earlier_ones(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(merging, "MAX_HELD_SIZE", 10**12)
    hold = Hold(SystemClock(), lambda _: None)
    line = reading.LogLine(STAMP.decode().strip(), "", "x" * MEGABYTE)
    for _ in range(70):
        hold.add(source("evil"), [line])
    assert hold.full is defended
    hold.flush()
    assert not hold.full


@pytest.mark.parametrize("text", [
    "Mon, 01 Jan 0001 00:00:00 +2359", "Fri, 31 Dec 9999 23:59:59 -2359", "x", "", "Mon, 99 Jan 2026 99:99:99 GMT",
    "Thu, 01 Jan 99999 00:00:00 GMT", "\0", "Mon, 01 Jan 2026 00:00:00 " + "9" * 1000,
])  # fmt: skip
def test_a_date_of_a_hostile_node_ends_nothing(text: str) -> None:
    assert isinstance(_date(text), str)
