"""A user of a simulated instance can exhaust neither memory nor loop of the server, and reads none of its files."""

from __future__ import annotations

import asyncio
import resource
import time

import pytest

from tarmac.sim.sessions import shell
from tarmac.sim.sessions.commands import MAX_OUTPUT
from tarmac.sim.sessions.words import MAX_LINE
from tests.attacking import TWICE
from tests.cost.measuring import longest_turn
from tests.sim.sessions.test_shell import Host

BIG = "A=" + "x" * 15_000
DOUBLED = "; ".join(["A=$A$A"] * 6)
LONGEST = 0.25  # seconds of CPU of one turn; without their limits these take seconds
MOST = 200_000_000  # bytes

COPIES = [BIG, DOUBLED, *["; ".join(f"B{n}x{m}=$A" for m in range(300)) for n in range(10)]]
SCRIPTS = {
    "variables that double": "\n".join([BIG, *["A=$A$A"] * 40]),
    "copies of a long variable": "\n".join(COPIES),
    "exports of a long variable": "\n".join([BIG, DOUBLED, *[f"export C{n}=$A" for n in range(3000)]]),
    "thousands of variables in a command": " ".join(f"v{n}=1" for n in range(2500)),
    "a shell that starts itself": "A='sh -c \"$A\"'; sh -c \"$A\"",
    "shells by standard input": "A='echo $A | sh'; echo \"$A\" | sh",
    "a pipe of thousands": "cat /etc/hostname" + " | cat" * 2500,
    "long output in a pipe of thousands": "env" + " | cat" * 2500,
    "folders by the thousand": "ls " + "/bin " * 3000,
    "folders by the thousand, at length": "ls -l " + "/bin " * 3000,
    "files by the thousand": "cat " + "/etc/hostname " * 1100,
    "commands by the thousand": "true;" * 3000,
    "failures by the thousand": "nothing;" * 2000,
    "patterns": "echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! | grep '(a+)+$'",
    "numbers of lines": "env | head -n 99999999999999999999; env | tail -n -1; env | head -n ²",
    "a sleep without end": "sleep 1e400; sleep nan; sleep -1; sleep 9" + "9" * 5000,
    "exit codes": "sh -c 'exit 99999999999999999999'; sh -c 'exit ²'; sh -c 'exit -1'",
    "addresses": "wget -qO- http://[; wget -qO- http://a:99999/; wget -qO- file:///etc/passwd; wget -qO- http://169.254.169.254/",
    "names": "nslookup " + "a." * 7000 + "; nslookup ''; nslookup $'\\0'",
    "files of the server": "cat /etc/passwd ../../../../etc/shadow /proc/self/environ /proc/1/environ //etc/passwd",
    "folders of the server": "ls / /proc/self /root/.ssh ../../.. /srv /var/lib/tarmac; cd /proc/self",
    "redirection into files": "echo a > /tmp/evil; echo b >> ../evil; echo c 2> /tmp/evil",
    "substitutions": "echo $(cat /etc/passwd) `id`",
    "syntax": "((((; ; ;; || && | > < & ' \" \\",
    "quotes without end": "echo '" + "\\" * 10_000,
    "control characters": "echo '\x1b]0;evil\x07\x9b2J\x00'",
    "a variable without a name": "export =x; =x; export A; ''=y",
    "a program of the server": "python3 -c 'import os'; /usr/bin/id; /bin/../bin/sh -c id; tarmac down",
    "fork": "a | a & a; :(){ :|:& };:",
    "options without values": "wget -O; wget -T; head -n; tail -n; grep; cd; uname -zzz; sleep; nslookup; sh -c",
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_hostile_script_costs_little_and_ends(name: str) -> None:
    host, script, before = Host(), SCRIPTS[name], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with asyncio.timeout(60), longest_turn() as turn:
        await (host.script(script) if len(script) < MAX_LINE else host.run("sh", given=script.encode()))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert turn[0] < LONGEST
    assert grown < MOST
    assert len(host.out) <= MAX_OUTPUT + 1_000_000
    said = host.out + host.err
    assert not any(word in said for word in (b"root:", b"PATH=/", b"uid=1"))
    assert (await host.script("echo alive"))[1] == "alive\n"


@TWICE
async def test_copies_of_a_long_variable(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(shell, "MAX_VARIABLES", 10**12)
    host = Host()
    await host.run("sh", given=SCRIPTS["copies of a long variable"].encode())
    held = sum(map(len, host.shell._session.variables.values()))  # pyright: ignore[reportPrivateUsage]
    assert (held <= 4 * 1024 * 1024 + 10_000) is defended


@TWICE
async def test_a_shell_in_itself(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(shell, "_MAX_DEPTH", 10**9)
    host = Host()
    try:
        _, _, err = await host.script(SCRIPTS["a shell that starts itself"])
    except RecursionError:
        err = ""
    assert ("a shell in so many shells is not simulated" in err) is defended


async def test_scripts_of_two_sessions_take_turns() -> None:
    slow, quick = Host(), Host()
    task = asyncio.ensure_future(slow.script(SCRIPTS["long output in a pipe of thousands"]))
    await asyncio.sleep(0)
    began = time.monotonic()
    await quick.script("echo a")
    assert not task.done() or time.monotonic() - began < 1
    await task
