"""Secrets stay out of command lines, which every local user can read while a process runs."""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.api.networking.cities import location_of
from tarmac.api.nodetokens import BadToken, NodeToken, parse_token
from tarmac.apps.commands import parsed, parser
from tarmac.apps.host.initializing import print_next_host
from tarmac.apps.host.tokens import VARIABLE, joining_token
from tarmac.cli.command import command_parsers
from tarmac.client.targets.untyped import LOCATIONS
from tests.client.backends import in_process
from tools.cache import ROOT

TOKEN = NodeToken("abcdef", "0123456789abcdef", "0" * 64)
SECRET_FLAG = re.compile("token|secret|password|passphrase|credential")
VISIBLE = {"join --token"}
"""Flags that take a secret itself: kept for scripts of earlier versions, with a warning."""


@pytest.fixture(autouse=True)
def no_token_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def read(*flags: str) -> NodeToken:
    return joining_token(parsed(["join", "192.0.2.1", *flags]))


def private(file: Path, text: str, mode: int = 0o600) -> str:
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def test_a_token_file_that_only_its_owner_can_read_is_used_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read("--token-file", private(tmp_path / "token", f"{TOKEN.text}\n")) == TOKEN
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620])
def test_a_token_file_open_to_group_or_other_users_gets_a_warning(
    tmp_path: Path, mode: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file = private(tmp_path / "token", TOKEN.text, mode)
    assert read("--token-file", file) == TOKEN
    err = capsys.readouterr().err
    assert err == (
        f"warning: --token-file: group or other users have access to {file} (mode {mode:04o}); chmod 600 {file}\n"
    )


def test_a_token_comes_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{TOKEN.text}\n".encode())))
    assert read("--token-file", "-") == TOKEN


def test_a_token_comes_from_the_environment_and_children_do_not_inherit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, TOKEN.text)
    assert read() == TOKEN
    assert VARIABLE not in os.environ


def test_a_token_in_the_command_line_works_with_one_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert read("--token", TOKEN.text) == TOKEN
    warning = "warning: --token: every local user can see the token in this command line; use --token-file\n"
    assert capsys.readouterr().err == warning


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read (No such file or directory); write the output of `tarmac token create` there"),
        ("", "is empty; write the output of `tarmac token create` there"),
        (" \n", "is empty"),
        (TOKEN.text[:-1], "not a join token; give the output of `tarmac token create`"),
        (TOKEN.text * 100_000, "not a join token; give the output of `tarmac token create`"),
    ],
)
def test_a_file_without_a_token_is_refused_with_the_reason(tmp_path: Path, content: str | None, problem: str) -> None:
    file = str(tmp_path / "token") if content is None else private(tmp_path / "token", content)
    with pytest.raises(BadToken, match=f"--token-file: .*{re.escape(problem)}") as refused:
        read("--token-file", file)
    assert TOKEN.secret not in str(refused.value)


@pytest.mark.parametrize("address", ["192.0.2.1", "--server=192.0.2.1"])
def test_a_join_without_a_token_names_the_ways_to_give_one(address: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tarmac.apps.main", "join", address], capture_output=True, text=True, timeout=60
    )
    expected = f"no token: give --token-file FILE, or --token-file - for standard input, or set {VARIABLE}"
    assert (done.returncode, done.stderr) == (2, f"error: {expected}\n")


def test_every_flag_for_a_secret_takes_a_file() -> None:
    found = {name for name in _flags(parser()) if SECRET_FLAG.search(name.partition(" --")[2])}
    assert {name for name in found if not name.endswith("-file")} == VISIBLE


def _flags(top: argparse.ArgumentParser, path: str = "") -> Iterator[str]:
    try:
        commands = command_parsers(top)
    except ValueError:  # no subcommands
        commands = {}
    for name, command in commands.items():
        yield from _flags(command, f"{path} {name}".strip())
    for action in top._actions:  # pyright: ignore[reportPrivateUsage]
        if action.nargs != 0:
            yield from (f"{path} {flag}" for flag in action.option_strings if flag.startswith("--"))


async def test_the_join_command_that_init_prints_pipes_the_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with in_process(tmp_path) as client:
        await client.resource(LOCATIONS).create(location_of("dfw", "DFW", "nodes"))
        await print_next_host(client, argparse.Namespace(location="DFW"), ["192.0.2.1"], 6443)
        await print_next_host(client, argparse.Namespace(location=""), ["2001:db8::1"], 6443)
    with_token, without = capsys.readouterr().out.splitlines()
    words = with_token.removeprefix("join another machine: ").split()
    assert words[0] == "echo"  # part of the shell: no process has it in its command line
    assert parse_token(words[1])
    assert words[2:] == ["|", "tarmac", "join", "192.0.2.1:6443", "--token-file", "-"]
    assert without.endswith("| ssh MACHINE tarmac join [2001:db8::1]:6443 --token-file -")


def test_no_page_shows_a_token_in_a_command_line() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*")]
    commands = re.compile(r"(tarmac join|set-credentials)[^|\n`]* --token[ =](?!…)")
    found = [str(page) for page in pages if page.is_file() and commands.search(page.read_text(errors="replace"))]
    assert found == []
