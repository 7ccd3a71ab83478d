"""`tarmac logs` of a planet: instances of the controllers, in virtual time, and a stand-in for their logs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.status import NotFound
from tarmac.apps.commands import parser
from tarmac.base.randomness import Randomness
from tarmac.cli.logs.lines import MAX_LINE, LineCutter, LogLine, sort_key
from tarmac.cli.logs.logs import logs
from tarmac.cli.rendering.text import escaped
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objectnames import BadObject
from tarmac.client.client import Client
from tests.cli.loghouse import LogHouse
from tests.cli.test_verbs_on_a_planet import Terminal
from tests.controllers.planet import Planet, play

BOTH = ("DFW", "LHR")


class Desk:
    """A user who reads logs."""

    def __init__(self, planet: Planet, live: bool = False, whole_seconds: bool = False) -> None:
        self.house = LogHouse(planet.user.transport, planet.user.clock, whole_seconds)
        self.client = Client(self.house, planet.user.clock, Randomness(7))
        self.out, self.err = Terminal(live), Terminal(False)
        self.planet = planet

    async def logs(self, *words: str) -> int:
        options = parser().parse_args(["logs", *words])
        return await logs(self.client, "default", options, Console(self.out, self.err))

    @asynccontextmanager
    async def following(self, *words: str) -> AsyncGenerator[asyncio.Task[int]]:
        task = asyncio.create_task(self.logs("-f", *words))
        try:
            await self.planet.wait(1)
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()

    @property
    def told(self) -> list[str]:
        return self.err.getvalue().splitlines()


async def desk(planet: Planet, live: bool = False, whole_seconds: bool = False, **workload: Any) -> Desk:
    """Run a story on a planet with one Workload that is ready."""
    planet.start()
    await planet.apply(**workload)
    await planet.ready(workload.get("replicas", 2) * len(workload.get("cities", ("DFW",))))
    return Desk(planet, live, whole_seconds)


async def names(planet: Planet) -> list[str]:
    return sorted(each["metadata"]["name"] for each in await planet.all(planet.pods))


def test_lines_of_all_cities_are_in_the_order_of_their_times() -> None:
    async def story(planet: Planet) -> None:
        one = await desk(planet, cities=BOTH, replicas=1)
        dfw, lhr = await names(planet)
        for second in range(3):
            one.house.write(lhr, f"lhr {second}", at=100.0 + second)
            one.house.write(dfw, f"dfw {second}", at=100.0 + second)
        one.house.write(dfw, "last", at=99.0)  # younger in the file, older by its time: the order of the stream counts
        assert await one.logs("web") == 0
        width = max(len(dfw), len(lhr))
        from_dfw, from_lhr = f"DFW {dfw:{width}} | ", f"LHR {lhr:{width}} | "
        assert one.lines == [
            *(before + f"{before[:3].lower()} {second}" for second in range(2) for before in (from_dfw, from_lhr)),
            *(from_dfw + "dfw 2", from_dfw + "last", from_lhr + "lhr 2"),
        ]

    play(story)


def test_one_log_is_shown_whole_and_alone_several_by_their_last_lines() -> None:
    async def story(planet: Planet) -> None:
        one = await desk(planet)
        first, second = await names(planet)
        for name in (first, second):
            for number in range(20):
                one.house.write(name, f"{name} {number}")
        assert await one.logs(f"instance/{first}") == 0
        assert one.lines == [f"{first} {number}" for number in range(20)]
        one.out.truncate(0)
        one.out.seek(0)
        assert await one.logs("web") == 0
        assert len(one.lines) == 20
        for words, count in ((("--tail", "3"), 6), (("--tail", "-1"), 40), (("--grep", " 1[0-4]$", "--tail=-1"), 10)):
            one.out.truncate(0)
            one.out.seek(0)
            assert await one.logs("web", *words) == 0
            assert len(one.lines) == count, words
        one.out.truncate(0)
        one.out.seek(0)
        assert await one.logs(f"pod/{first}", "--prefix", "--timestamps", "--tail", "1") == 0
        (line,) = one.lines
        prefix, _, rest = line.partition(" | ")
        assert prefix == f"DFW {first}"
        assert rest.endswith(f"Z {first} 19")

    play(story)


def test_json_says_where_every_line_is_from() -> None:
    async def story(planet: Planet) -> None:
        one = await desk(planet, replicas=1)
        (name,) = await names(planet)
        one.house.write(name, 'say "hi"\x1b[2J', at=1.5)
        assert await one.logs("web", "-o", "json") == 0
        (line,) = one.lines
        assert json.loads(line) == {
            "time": "1970-01-01T00:00:01.500000000Z",
            "city": "DFW",
            "node": "dfw-0",
            "namespace": "default",
            "instance": name,
            "container": "main",
            "line": 'say "hi"\x1b[2J',
        }

    play(story)


def test_cities_labels_and_containers_choose() -> None:
    async def story(planet: Planet) -> None:
        one = await desk(planet, cities=BOTH, replicas=1)
        dfw, lhr = await names(planet)
        for name in (dfw, lhr):
            one.house.write(name, name)
        assert await one.logs("web", "--city", "lhr") == 0
        assert one.lines == [lhr]
        assert await one.logs("-l", "app=web,compute.datumapis.com/city-code=DFW") == 0
        assert one.lines == [lhr, dfw]
        assert await one.logs("web", "--city", "DFW", "--all-containers", "--prefix") == 0
        assert one.lines[2:] == [f"DFW {dfw} | {dfw}"]
        with pytest.raises(NotFound, match="no log to read"):
            await one.logs("web", "-c", "sidecar")
        assert one.told == [f'{name} has no container "sidecar"' for name in (dfw, lhr)]

    play(story)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "no logs selected"),
        (("web", "-l", "app=web"), "no logs selected"),
        (("node/dfw-0",), "has no log"),
        (("web", "-f", "-p"), "give one of them"),
        (("web", "-c", "a", "--all-containers"), "give one of them"),
        (("web", "--grep", "("), "--grep '\\(' cannot be understood"),
        (("web", "--max-log-requests", "1"), "2 logs are more than the 1 .* --city or -l, .*--max-log-requests 2"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(words: tuple[str, ...], why: str) -> None:
    async def story(planet: Planet) -> None:
        one = await desk(planet)
        with pytest.raises(BadObject, match=why):
            await one.logs(*words)

    play(story)


@pytest.mark.parametrize(
    "words",
    [
        ["--since", "-5m"],
        ["--since-time", "noon"],
        ["--tail", "x"],
        ["--since=1m", "--since-time=2026-01-01T00:00:00Z"],
    ],
)
def test_values_that_mean_nothing_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["logs", "web", *words])
    assert ended.value.code == 2
    assert "error: --" in capsys.readouterr().err


def test_one_that_cannot_be_read_does_not_keep_the_others_back() -> None:
    async def story(planet: Planet) -> None:
        one = await desk(planet)
        bad, good = await names(planet)
        one.house.logs[bad, "main"].refused = (503, "no connection to node dfw-0\x1b[2J")
        one.house.write(good, "works")
        assert await one.logs("web") == 1
        assert [line.partition(" | ")[2] for line in one.lines] == ["works"]
        assert one.told == [f"DFW {bad}: no connection to node dfw-0\ufffd[2J"]
        with pytest.raises(NotFound):
            await one.logs("wbe")

    play(story)


def test_instances_that_come_are_read_from_their_beginning_and_those_that_go_are_told() -> None:
    async def story(planet: Planet) -> None:
        one = await desk(planet, replicas=1)
        (first,) = await names(planet)
        for number in range(20):
            one.house.write(first, f"old {number}")
        async with one.following("web", "--tail", "1"):
            assert one.lines == ["old 19"]
            for name in (first[:-1] + "1",):  # written before it is ready, and more than a tail
                for number in range(20):
                    one.house.write(name, f"new {number}")
            scale: dict[str, Any] = {
                "placements": [{"name": "all", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 2}}]
            }
            await planet.edit(**scale)
            await planet.ready(2)
            (_, second) = await names(planet)
            await planet.wait(12)
            assert one.told == [f"+ DFW {second}"]
            assert [line.partition(" | ")[2] for line in one.lines[1:]] == [f"new {number}" for number in range(20)]
            scale["placements"][0]["scaleSettings"] = {"minReplicas": 1}
            await planet.edit(**scale)
            one.house.write(second, "farewell")
            await planet.ready(1)
            await planet.wait(60)
            assert one.told == [f"+ DFW {second}", f"- DFW {second}"]
            assert one.lines[-1].endswith("| farewell")

    play(story)


def test_following_ends_when_what_was_named_is_gone() -> None:
    async def story(planet: Planet) -> None:
        one = await desk(planet, replicas=1)
        (name,) = await names(planet)
        one.house.write(name, "line")
        async with one.following("web") as task:
            one.house.logs[name, "main"].over = True
            await planet.workloads.delete("web", "default", propagation="Foreground")
            await planet.gone(planet.workloads)
            assert await asyncio.wait_for(task, 120) == 0
        assert one.lines == ["line"]

    play(story)


def test_a_container_that_begins_again_is_followed_into_its_next_life() -> None:
    async def story(planet: Planet) -> None:
        one = await desk(planet, replicas=1)
        (name,) = await names(planet)
        log = one.house.logs[name, "main"]
        log.lives = [[("1970-01-01T00:00:00.000000000Z", "a life that nobody asked for")], []]
        one.house.write(name, "first")
        async with one.following("web"):
            one.house.write(name, "dying")
            await planet.wait(1)
            one.house.down = True  # the connection breaks, and meanwhile the container restarts
            one.house.cut()
            one.house.write(name, "last words")
            await planet.wait(2)
            log.begin_again()
            one.house.write(name, "hello again")
            one.house.down = False
            await planet.wait(30)
            log.begin_again()
            one.house.write(name, "third")
            await planet.wait(30)
        assert one.lines == ["first", "dying", "last words", "hello again", "third"]

    play(story)


@pytest.mark.parametrize("whole_seconds", [False, True], ids=["our nodes", "kubelets"])
def test_every_line_of_fifty_streams_comes_once_however_often_connections_break(whole_seconds: bool) -> None:
    async def story(planet: Planet) -> None:
        one = await desk(planet, cities=("DFW", "LHR"), replicas=25, policy="Parallel", whole_seconds=whole_seconds)
        chance, written = Random(11), dict[str, list[str]]()
        pods = await names(planet)
        assert len(pods) == 50
        for pod in pods:
            written[pod] = []
        async with one.following("web", "--tail", "-1"):
            for number in range(300):
                for pod in chance.sample(pods, 10):
                    # lines of one moment, lines that are equal, and lines a little out of order
                    text = f"{pod} {number // 3}"
                    one.house.write(pod, text, at=planet.user.clock.now() - chance.uniform(0, 0.3))
                    written[pod].append(text)
                if chance.random() < 0.1:
                    one.house.cut()
                one.house.down = chance.random() < 0.05
                await planet.wait(chance.uniform(0, 0.4))
            one.house.down = False
            await planet.wait(60)
        shown: dict[str, list[str]] = {pod: [] for pod in pods}
        for line in one.lines:
            text = line.partition(" | ")[2]
            shown[text.split()[0]].append(text)
        assert shown == written
        assert one.house.open == 0

    play(story)


def test_lines_wait_a_moment_for_earlier_ones() -> None:
    async def story(planet: Planet) -> None:
        one = await desk(planet, cities=BOTH, replicas=1)
        dfw, lhr = await names(planet)
        async with one.following("web"):
            now = planet.user.clock.now()
            one.house.write(dfw, "second", at=now)
            await planet.wait(0.1)
            one.house.write(lhr, "first", at=now - 0.05)
            await planet.wait(1)
            one.house.write(lhr, "late", at=now - 5)
            await planet.wait(1)
        assert [line.partition(" | ")[2] for line in one.lines] == ["first", "second", "late"]

    play(story)


def test_a_terminal_sees_colours_and_nothing_else_that_commands_it() -> None:
    assert escaped("\x1b[31mred\x1b[0m \x1b[2Jgone\x07 \u202eevil\ttab") == (
        "\x1b[31mred\x1b[0m \\x1b[2Jgone\\x07 \\u202eevil\ttab\x1b[0m"
    )
    assert escaped("\x1b[8mhidden") == "\\x1b[8mhidden"
    assert escaped("\x1b]52;c;aGk=\x07") == "\\x1b]52;c;aGk=\\x07"
    assert escaped("\x1b[38;5;12m\x1b[01;31mx") == "\x1b[38;5;12m\x1b[01;31mx\x1b[0m"

    async def story(planet: Planet) -> None:
        one = await desk(planet, live=True)
        first, second = await names(planet)
        one.house.write(first, "\x1b[2J\x1b[32mgreen")
        one.house.write(second, "plain")
        assert await one.logs("web", "--color", "never") == 0
        assert one.lines == [f"DFW {first} | \\x1b[2J\x1b[32mgreen\x1b[0m", f"DFW {second} | plain"]
        assert await one.logs("web") == 0
        assert one.lines[2].startswith("\x1b[")

    play(story)


@given(st.lists(st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"")), max_size=20), st.data())
def test_lines_are_the_same_however_an_answer_is_cut(texts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(b"2026-11-15T12:00:00.%09dZ %s\n" % (place, text) for place, text in enumerate(texts))
    cutter, found, place = LineCutter(), list[LogLine](), 0
    while place < len(whole):
        size = data.draw(st.integers(1, 40))
        found += cutter.of(whole[place : place + size])
        place += size
    assert [line.text for line in found + cutter.rest()] == [text.decode(errors="replace") for text in texts]


def test_a_line_without_an_end_is_given_out_in_pieces() -> None:
    cutter = LineCutter()
    stamp = b"2026-11-15T12:00:00.000000000Z "
    found: list[LogLine] = []
    for chunk in (stamp, *[b"x" * 60_000] * 40, b"\n", stamp, b"next\n"):
        found += cutter.of(chunk)
    assert [len(line.text) for line in found] == [
        MAX_LINE - len(stamp),
        MAX_LINE,
        40 * 60_000 - 2 * MAX_LINE + len(stamp),
        4,
    ]
    assert len({line.key for line in found}) == 1


def test_times_of_any_zone_and_length_sort() -> None:
    texts = ["2026-11-15T12:00:00Z", "2026-11-15T13:00:00.1+01:00", "2026-11-15T12:00:00.123456789Z"]
    keys = [sort_key(text) for text in texts]
    assert keys == sorted(keys) == [
        "2026-11-15T12:00:00.000000000Z", "2026-11-15T12:00:00.100000000Z", "2026-11-15T12:00:00.123456789Z",
    ]  # fmt: skip
