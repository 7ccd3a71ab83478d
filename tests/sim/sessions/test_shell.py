"""The simulated shell: commands, files, variables, pipes and the ends of a session."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tarmac.base.clock import SystemClock
from tarmac.base.tasks import Tasks
from tarmac.sim.sessions.commands import NAMES, PROGRAMS
from tarmac.sim.sessions.instance import SimulatedContainer
from tarmac.sim.sessions.peers import Named, PeerUnreachable, SessionPeers
from tarmac.sim.sessions.shell import Session, Shell
from tarmac.sim.sessions.terminal import Terminal

POD: dict[str, Any] = {
    "metadata": {"name": "web-0", "namespace": "shop"},
    "spec": {"containers": [{"name": "main", "command": ["serve"], "args": ["--port", "80"]}]},
}


class FakePeers:
    """One peer, which answers at port 80."""

    async def resolve(self, container: SimulatedContainer, name: str) -> Named | None:
        return Named("10.0.0.2", "pod/shop/db") if name == "db" else None

    async def fetch(self, container: SimulatedContainer, peer: Named, port: int) -> str:
        if port != 80:
            raise PeerUnreachable("Connection refused")
        return "page\n"


class Host:
    """A shell with its output."""

    def __init__(self, tty: bool = False) -> None:
        self.out = self.err = b""
        self.terminal = Terminal(tty, self._put)
        files = {"/etc/hostname": b"web-0\n", "/etc/app/colour": b"blue\n", **{f"/bin/{each}": b"" for each in NAMES}}
        container = SimulatedContainer(POD, "main", "dfw-0", "DFW", {}, files, frozenset({"/etc", "/etc/app", "/bin"}))
        session = Session(container, cast("SessionPeers", FakePeers()), SystemClock(), {"COLOUR": "blue"})
        self.tasks = Tasks()
        self.shell = Shell(session, self.terminal, PROGRAMS, self.tasks)

    def _put(self, data: bytes, error: bool) -> None:
        if error:
            self.err += data
        else:
            self.out += data

    async def run(self, *words: str, given: bytes = b"") -> tuple[int, str, str]:
        self.out = self.err = b""
        self.terminal.reopen()
        self.terminal.feed(given)
        self.terminal.end()
        code = await self.shell.execute(words)
        return code, self.out.decode(), self.err.decode()

    async def script(self, text: str, given: bytes = b"") -> tuple[int, str, str]:
        return await self.run("sh", "-c", text, given=given)


@pytest.mark.parametrize(
    ("script", "out"),
    [
        ("uname", "Linux\n"),
        ("uname -sr", "Linux 6.1.0-sim\n"),
        ("hostname", "web-0\n"),
        ("echo $COLOUR; COLOUR=red; echo $COLOUR", "blue\nred\n"),
        ("env | grep COLOUR", "COLOUR=blue\n"),
        ("ls /etc", "app\nhostname\n"),
        ("cd /etc/app && ls && pwd && cat colour ../hostname", "colour\n/etc/app\nblue\nweb-0\n"),
        ("echo a; echo b | wc -l", "a\n1\n"),
        ("echo a b c | wc -w", "3\n"),
        ("false || echo no; true && echo yes", "no\nyes\n"),
        ("false; echo $?", "1\n"),
        ("wget -qO- http://db/", "page\n"),
        ("curl -s db:80/x", "page\n"),
        ("wget -q -T 5 -O /dev/null db && echo ok", "ok\n"),
        ("echo a >/dev/null; echo b", "b\n"),
        ("ps | tail -n 2 | head -1", "    1 root      0:00 serve --port 80\n"),
        ("nslookup db | tail -1", "Address: 10.0.0.2\n"),
        ("/bin/sh -c 'echo in'", "in\n"),
    ],
)
async def test_a_script_prints(script: str, out: str) -> None:
    assert await Host().script(script) == (0, out, "")


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("vi x", 127, "sh: vi: not found in a simulated instance"),
        ("exit 4; echo no", 4, ""),
        ("cat /none", 1, "cat: /none: No such file or directory"),
        ("cat /etc", 1, "cat: /etc: Is a directory"),
        ("wget -qO- db:81", 1, "wget: can't connect to remote host (10.0.0.2): Connection refused"),
        ("wget -qO- http://example.com", 1, "wget: bad address 'example.com'"),
        ("wget -qO- https://db", 1, "speak http only"),
        ("wget db", 1, "Read-only file system"),
        ("while true; do echo; done", 2, "`while` is not simulated"),
        ("A=$COLOUR; " + "A=$A$A$A$A$A$A$A$A;" * 20, 2, "so much text"),
    ],
)
async def test_a_failure_has_a_code_and_a_reason(script: str, code: int, said: str) -> None:
    seen = await Host().script(script)
    assert (seen[0], seen[1]) == (code, "")
    assert said in seen[2]


async def test_commands_and_scripts_read_the_input() -> None:
    host = Host()
    assert await host.run("cat", given=b"given\n") == (0, "given\n", "")
    assert await host.run("sh", given=b"echo 1\necho 2 | cat\nfalse\n") == (1, "1\n2\n", "")
    assert await host.script("grep -i B", given=b"a\nb\n") == (0, "b\n", "")


async def test_a_terminal_prompts_and_ctrl_c_ends_the_line_only() -> None:
    host = Host(tty=True)
    session = asyncio.ensure_future(host.shell.execute(["sh"]))
    host.terminal.feed(b"sleep 1000\r")
    while b"sleep" not in host.out or not len(host.tasks):
        await asyncio.sleep(0)
    host.terminal.feed(b"\x03")
    host.terminal.feed(b"echo $HOME still\r\x04")
    assert await session == 0
    assert host.out.count(b"/ # ") == 3
    assert host.out.endswith(b" still\r\n/ # ")


async def test_a_cancelled_session_ends_its_command() -> None:
    host = Host(tty=True)
    session = asyncio.ensure_future(host.shell.execute(["sh"]))
    host.terminal.feed(b"sleep 1000\r")
    while not len(host.tasks):
        await asyncio.sleep(0)
    session.cancel()
    with pytest.raises(asyncio.CancelledError):
        await session
    for _ in range(3):
        await asyncio.sleep(0)
    assert not len(host.tasks)
