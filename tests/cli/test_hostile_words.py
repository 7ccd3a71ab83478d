"""Foreign text on a terminal: objects, errors and log lines contain no terminal commands, as text or as JSON."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from contextlib import AbstractAsyncContextManager
from typing import Any
from unittest.mock import patch

import pytest

from tarmac.api.status import Forbidden
from tarmac.apps.commands import parser, run
from tarmac.cli.top.top import top
from tarmac.cli.verbs import call
from tarmac.cli.verbs.clusterstatus import status
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.nodereport import node_report
from tarmac.cli.verbs.objectnames import BadObject, parse_object
from tarmac.cli.verbs.reach import reach
from tarmac.cli.verbs.why import why
from tarmac.client.client import Client
from tarmac.client.errors import Disconnected
from tarmac.client.transport import ClientRequest, Reply, StreamReply, Transport
from tests.cli.test_logs import desk as log_desk
from tests.cli.test_logs import names
from tests.cli.test_verbs_on_a_planet import Desk, Terminal
from tests.controllers.planet import Planet, play

TITLE, CLEAR, COPY, C1 = "\x1b]0;stolen\x07", "\x1b[2J\x1b[1;1H", "\x1b]52;c;c3RvbGVu\x07", "\x9b2J\x9d0;stolen\x9c"
REWRITE, TURNED, HIDDEN = "\rerror: all is well\x1b[K", "\u202egnp.exe\u2066\u200f", "\x1b[8mhidden\x7f\b\b\x0b\x0c\x85"
HOSTILE = f"{TITLE}{CLEAR}{COPY}{C1}{REWRITE}{TURNED}{HIDDEN}\u2028"
# Fields that the commands use as keys; the server allows only letters of names and times in them.
_KEYS = frozenset((
    "name", "namespace", "uid", "kind", "apiVersion", "resourceVersion", "continue", "type", "status", "answer",
    "phase", "protocol", "creationTimestamp",
))  # fmt: skip


def commands(text: str) -> list[str]:
    """Return the characters that a terminal acts upon, without line ends, tabs and colours."""
    plain = text.replace("\n", "").replace("\t", "")
    return sorted({repr(each) for each in plain if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp")})


def spoil(value: Any) -> Any:
    """Return the value with hostile words added."""
    if isinstance(value, dict):
        return {key: each if key in _KEYS else spoil(each) for key, each in value.items()}
    if isinstance(value, list):
        return [spoil(each) for each in value]
    spoilt = isinstance(value, str) and value and not value[:1].isdigit()
    return value + HOSTILE if spoilt else value


class HostileServer:
    """A server that adds hostile words to its responses."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(self, request: ClientRequest) -> Reply:
        reply = await self._inner.request(request)
        if not reply.body.startswith(b"{"):
            return reply
        return reply._replace(body=json.dumps(spoil(json.loads(reply.body))).encode())

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


async def _workload(desk: Desk, client: Client, output: str) -> int:
    target, name = parse_object(["workload/web"])
    return await why(client, target, "default", name, desk.console, output)


async def _node(desk: Desk, client: Client, output: str) -> int:
    return await node_report(client, [], desk.console, output)


async def _cluster(desk: Desk, client: Client, output: str) -> int:
    return await status(client, desk.console, output)


async def _reached(desk: Desk, client: Client, output: str) -> int:
    first = min(each["metadata"]["name"] for each in await desk.planet.all(desk.planet.pods))
    words = ["why", first, "--reach", "10.96.0.1:443", *(["-o", output] if output else [])]
    return await reach(client, "default", parser().parse_args(words), desk.console)


async def _used(desk: Desk, client: Client, output: str) -> int:
    return await top(
        client, "default", parser().parse_args(["top", "nodes", *(["-o", output] if output else [])]), desk.console
    )


VERBS = (_workload, _node, _cluster, _reached, _used)


@pytest.mark.parametrize("output", ["", "json"])
def test_answers_of_a_server_do_not_command_the_terminal(output: str) -> None:
    async def story(planet: Planet) -> None:
        planet.start()
        await planet.apply(cities=("DFW",), replicas=1)
        await planet.ready(1)
        for verb in VERBS:
            desk = Desk(planet, live=True)
            await verb(desk, Client(HostileServer(planet.user.transport), planet.user.clock), output)
            said = desk.out.getvalue() + desk.err.getvalue()
            assert "stolen" in said, f"{verb.__name__} shows none of it"
            assert commands(said) == [], verb.__name__
            if output:
                json.loads(desk.out.getvalue())

    play(story)


def test_errors_of_a_server_do_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for error in (Forbidden(HOSTILE), BadObject(HOSTILE), Disconnected(HOSTILE)):
        with patch.object(call, "_run", side_effect=error):
            assert run(parser().parse_args(["why", "workload/web"])) in (1, 2)
    console = Console(Terminal(True), sys.stderr)
    console.warn(HOSTILE)
    console.fail(HOSTILE)
    said = capsys.readouterr().err
    assert said.count("stolen") >= 5
    assert commands(said) == []


FORGED = ("DFW web-0 | all is well", "2026-11-15T12:00:00.000000000Z forged", "\x1b[32mDFW web-0\x1b[0m | green", "{}")


@pytest.mark.parametrize("output", [(), ("-o", "json")])
def test_lines_of_several_containers_do_not_command_the_terminal_nor_pass_for_each_other(
    output: tuple[str, ...],
) -> None:
    async def story(planet: Planet) -> None:
        one = await log_desk(planet, live=True)
        first, second = await names(planet)
        one.house.write(first, "honest")
        for line in (HOSTILE, *FORGED):
            one.house.write(second, line)
        assert await one.logs("web", "--color", "never", *output) == 0
        shown = one.out.getvalue().split("\n")[:-1]
        assert len(shown) == 2 + len(FORGED), "a line of a container is one line"
        if output:
            sources = [json.loads(each)["instance"] for each in shown]
            assert [json.loads(each)["line"] for each in shown[1:]] == [HOSTILE, *FORGED]
        else:
            sources = [each.split(" ")[1] for each in shown]
        assert sources == [first, *[second] * (1 + len(FORGED))]
        assert [each for each in commands("".join(shown)) if each != repr("\x1b")] == []
        colours = [each for line in shown for each in re.findall("\x1b[^m]*m?", line)]
        assert set(colours) <= {"\x1b[32m", "\x1b[0m"}

    play(story)


@pytest.mark.parametrize(
    "time", ["9999-99-99T99:99:99.999999999Z", "2026-13-01T00:00:00.000000000Z", "zzzz-zz-zzTzz:zz:zz.zzzzzzzzzZ"]
)
def test_a_node_that_tells_no_time_keeps_no_other_log_back(time: str) -> None:
    async def story(planet: Planet) -> None:
        one = await log_desk(planet)
        first, second = await names(planet)
        one.house.write(first, f"begun\n{time} hostile")
        one.house.write(second, "honest")
        assert await one.logs("web") == 0
        assert sorted(line.partition(" | ")[2] for line in one.lines) == ["begun", "honest", "hostile"]

    play(story)
