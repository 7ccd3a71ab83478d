"""Logs in the runtime's format, read with the options of kubectl."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import BinaryIO

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.agent.http.logs import logreader
from tarmac.agent.http.logs.lines import Formatter
from tarmac.agent.http.logs.logfiles import seek_tail
from tarmac.agent.http.logs.options import LogOptions
from tests.agent.http.stage import Stage
from tests.support.loopwatch import loop_never_held

LOGS = "/containerLogs/default/web/main"
TIMES = [f"2026-11-15T12:00:0{second}.5Z" for second in range(10)]


def line(text: str, second: int = 0, stream: str = "stdout", tag: str = "F") -> str:
    return f"{TIMES[second]} {stream} {tag} {text}\n"


@pytest.fixture
def log(node: Stage) -> Path:
    """Return the log file of the running container."""
    return node.pods.logs / "1.log"


async def read(node: Stage, web: aiohttp.ClientSession, query: str = "") -> str:
    async with web.get(f"{node.url}{LOGS}?{query}") as answer:
        assert answer.status == 200, await answer.text()
        assert answer.content_type == "text/plain"
        return await answer.text()


class Follower:
    """Reads a log with `follow` in the background."""

    def __init__(self, node: Stage, web: aiohttp.ClientSession, query: str = "follow=true") -> None:
        self.text = ""
        self.task = asyncio.ensure_future(self._read(f"{node.url}{LOGS}?{query}", web))

    async def _read(self, url: str, web: aiohttp.ClientSession) -> None:
        async with web.get(url) as answer:
            async for chunk in answer.content.iter_any():
                self.text += chunk.decode()

    async def has(self, text: str) -> None:
        async with asyncio.timeout(5):
            while self.text != text:
                assert not self.task.done() or self.text == text, self.text
                await asyncio.sleep(0.01)

    async def ended(self) -> str:
        await asyncio.wait_for(self.task, 5)
        return self.text


async def test_content_is_shown_without_the_runtimes_marks(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    log.write_text(line("one") + line("two", stream="stderr") + line("") + line("four  spaced"))
    assert await read(node, web) == "one\ntwo\n\nfour  spaced\n"


async def test_parts_of_a_line_are_joined(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    log.write_text(line("half ", tag="P") + line("and half", 1) + line("next", 2, tag="F:extra"))
    assert await read(node, web) == "half and half\nnext\n"
    shown = await read(node, web, "timestamps=true")
    assert shown == "2026-11-15T12:00:00.500000000Z half and half\n2026-11-15T12:00:02.500000000Z next\n"


async def test_the_last_lines(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    log.write_text("".join(line(str(number)) for number in range(5)) + line("5a ", tag="P") + line("5b"))
    assert await read(node, web, "tailLines=2") == "4\n5a 5b\n"
    assert await read(node, web, "tailLines=0") == ""
    assert await read(node, web, "tailLines=99") == "0\n1\n2\n3\n4\n5a 5b\n"
    assert await read(node, web, "tail=all") == "0\n1\n2\n3\n4\n5a 5b\n"


async def test_since_returns_newer_lines_only(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    log.write_text("".join(line(str(second), second) for second in range(5)))
    assert await read(node, web, "sinceTime=2026-11-15T12:00:03Z") == "3\n4\n"
    assert await read(node, web, "sinceSeconds=1") == ""


async def test_no_more_than_so_many_bytes(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    log.write_text(line("hello") + line("world"))
    assert await read(node, web, "limitBytes=8") == "hello\nwo"


async def test_one_stream_only(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    log.write_text(line("out") + line("err", stream="stderr"))
    assert await read(node, web, "stream=Stderr") == "err\n"
    assert await read(node, web, "stream=Stdout") == "out\n"


async def test_the_container_before(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    log.write_text(line("now"))
    (node.pods.logs / "0.log").write_text(line("before"))
    assert await read(node, web, "previous=true") == "before\n"


async def test_files_that_were_rotated_away_are_read_too(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    with gzip.open(f"{log}.20261115-110000.gz", "wt") as packed:
        packed.write(line("1") + line("2"))
    Path(f"{log}.20261115-113000").write_text(line("3") + line("4"))
    Path(f"{log}.20261115-113000.tmp").write_text(line("not yet"))
    log.write_text(line("5") + line("6"))
    assert await read(node, web) == "1\n2\n3\n4\n5\n6\n"
    assert await read(node, web, "tailLines=3") == "4\n5\n6\n"
    assert await read(node, web, "tailLines=5") == "2\n3\n4\n5\n6\n"


async def test_lines_that_are_none_are_left_out(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    log.write_bytes(b"garbage\n\xff\xfe\x00 \n" + line("good").encode() + b"half a l")
    assert await read(node, web) == "good\n"


async def test_following_shows_what_is_written_until_the_container_ends(
    node: Stage, web: aiohttp.ClientSession, log: Path
) -> None:
    log.write_text(line("old"))
    follower = Follower(node, web)
    await follower.has("old\n")
    with log.open("a") as file:
        file.write(line("new")[:10])
        file.flush()
        await asyncio.sleep(0.25)
        file.write(line("new")[10:])
    await follower.has("old\nnew\n")
    with log.open("a") as file:
        file.write(line("last"))
    node.runtime.states["main"] = "exited"
    assert await follower.ended() == "old\nnew\nlast\n"


async def test_following_goes_on_over_a_rotation(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    log.write_text(line("0"))
    follower = Follower(node, web, "follow=true&tailLines=1")
    await follower.has("0\n")
    old = log.open("a")
    log.rename(f"{log}.20261115-120000")
    old.write(line("1"))
    old.close()
    log.write_text(line("2"))
    await follower.has("0\n1\n2\n")
    node.runtime.states["main"] = "exited"
    assert await follower.ended() == "0\n1\n2\n"


async def test_following_a_container_that_has_ended_ends_at_once(
    node: Stage, web: aiohttp.ClientSession, log: Path
) -> None:
    log.write_text(line("all"))
    del node.runtime.states["main"]
    assert await read(node, web, "follow=true") == "all\n"


async def test_a_follower_that_goes_is_forgotten(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    log.write_text(line("x"))
    follower = Follower(node, web)
    await follower.has("x\n")
    follower.task.cancel()
    async with asyncio.timeout(5):
        while node.listener.connections:
            await asyncio.sleep(0.01)


async def test_a_long_log_is_read_at_the_readers_pace(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    text = line("x" * 1000)
    log.write_text(text * 40_000)
    async with web.get(f"{node.url}{LOGS}") as answer:
        await asyncio.sleep(0.5)
        (connection,) = node.listener.connections
        assert connection._transport.get_write_buffer_size() < 1_000_000
        size = 0
        async for chunk in answer.content.iter_any():
            size += len(chunk)
    assert size == 40_000 * 1001


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/containerLogs/default/none/main", 404, 'pod "none" does not exist'),
        ("/containerLogs/default/web/none", 404, 'container "none" not found in pod "web"'),
        (f"{LOGS}?tailLines=-1", 422, "tailLines must be at least 0"),
        (f"{LOGS}?sinceSeconds=x", 422, 'sinceSeconds must be a number, not "x"'),
        (f"{LOGS}?stream=Both", 422, 'stream must be one of All, Stdout, Stderr, not "Both"'),
        (f"{LOGS}?previous=true", 400, 'previous terminated container "main" in pod "web" not found'),
        (LOGS, 400, 'container "main" in pod "web" is not available'),
    ],
)
async def test_refusals(node: Stage, web: aiohttp.ClientSession, path: str, status: int, message: str) -> None:
    async with web.get(node.url + path) as answer:
        assert (answer.status, await answer.text()) == (status, message)


async def test_a_container_that_waits_says_for_what(node: Stage, web: aiohttp.ClientSession) -> None:
    node.pods.known[0]["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ErrImagePull"}}
    async with web.get(node.url + LOGS) as answer:
        assert await answer.text() == 'container "main" in pod "web" is waiting to start: ErrImagePull'


async def test_no_link_is_followed_out_of_the_folder(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    secret = node.pods.logs / "secret"
    secret.write_text(line("secret"))
    log.symlink_to(secret)
    async with web.get(node.url + LOGS) as answer:
        assert answer.status == 500
        assert "secret" not in await answer.text()


@given(st.lists(st.tuples(st.text("ab", max_size=5), st.booleans()), max_size=30), st.integers(0, 12))
def test_the_tail_is_the_end_of_the_whole(lines: list[tuple[str, bool]], wanted: int) -> None:
    import io

    def shown(data: bytes) -> bytes:
        return Formatter(LogOptions()).format(data.split(b"\n"))

    whole = "".join(line(text, tag="F" if complete else "P") for text, complete in lines).encode()
    file = io.BytesIO(whole)
    missing = seek_tail(file, wanted, len(whole))
    tail = shown(file.read())
    parts = shown(whole).split(b"\n")
    ended = not lines or lines[-1][1]
    outputs = parts[:-1] if ended else parts
    assert missing == max(0, wanted - len(outputs))
    expected = outputs[len(outputs) - wanted :] if wanted < len(outputs) else outputs
    assert tail == b"\n".join(expected) + (b"\n" if expected and ended else b"")


async def test_a_line_that_comes_while_the_tail_is_read_is_not_part_of_it(
    node: Stage, web: aiohttp.ClientSession, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text(line("one") + line("two") + line("three"))

    def seek_and_grow(file: BinaryIO, wanted: int, end: int) -> int:
        found = seek_tail(file, wanted, end)
        with log.open("a") as writing:
            writing.write(line("four"))
        return found

    monkeypatch.setattr(logreader, "seek_tail", seek_and_grow)
    assert await read(node, web, "tailLines=2") == "two\nthree\n"


def test_options_take_the_later_of_two_times() -> None:
    params = {"sinceSeconds": ["10"], "sinceTime": ["1970-01-01T00:01:35Z"]}
    assert LogOptions.read(params, 100.0).since == 95.0


async def test_a_line_without_an_end_is_not_collected(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    log.write_bytes(line("before").encode() + b"x" * 30_000_000)
    with loop_never_held():
        assert await read(node, web) == "before\n"


async def test_looking_for_the_last_lines_holds_up_nobody(node: Stage, web: aiohttp.ClientSession, log: Path) -> None:
    log.write_text(line("") * 300_000)
    with loop_never_held():
        assert len(await read(node, web, "tailLines=299999&limitBytes=10")) == 10
