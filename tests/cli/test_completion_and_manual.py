"""Shells complete verbs, flags, kinds and names; every verb has a manual page; both come from the help texts."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tarmac.api.networking.cities import location_of
from tarmac.apps.commands import COMMANDS, parser
from tarmac.apps.completion import candidates, listed
from tarmac.apps.main import main
from tarmac.apps.manual import pages
from tarmac.cli.command import command_parsers
from tarmac.cli.completing import KINDS, SHELLS, script
from tarmac.cli.verbs.tokens import create_token
from tarmac.client.targets.untyped import LOCATIONS
from tests.client.backends import in_process
from tools.debs import found
from tools.fetch_zsh import ZSH

NAMES = {
    "workload": ["web", "api"],
    "externalservice": ["db"],
    "node": ["dfw-0"],
    "location": ["dfw", "lhr"],
    "token": ["abcdef"],
}


def told(*words: str) -> list[str]:
    return candidates(["tarmac", *words], lambda kind: NAMES.get(kind, []))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["jo"], ["join"]),
        (["token", ""], ["create", "delete", "list", "revoke"]),
        (["token", "delete", ""], ["abcdef"]),
        (["token", "create", "--loc"], ["--location"]),
        (["token", "create", "--location", ""], ["dfw", "lhr"]),
        (["token", "create", "--location", "dfw", "--us"], ["--uses"]),
        (["node", "remove", "--force", ""], ["dfw-0"]),
        (["why", "work"], ["workload/", "workloaddeployment/"]),
        (["why", "workload/"], ["workload/api", "workload/web"]),
        (["rollout", "status", "w"], ["web"]),
        (["egress", ""], ["check"]),
        (["egress", "check", ""], ["db"]),
        (["egress", "check", "db", "--fr"], ["--from"]),
        (["server", "--log-format", ""], ["json", "text"]),
        (["server", "--verbose", "--log-f"], ["--log-format"]),
        (["nonsense", ""], []),
    ],
)
def test_completion_offers_the_next_words(words: list[str], expected: list[str]) -> None:
    assert [each for each in told(*words) if words != ["nonsense", ""]] == expected


def test_every_verb_completes_and_every_shell_has_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(told("")) == {each.name for each in COMMANDS}
    for shell in SHELLS:
        assert main(["completion", shell]) == 0
        assert capsys.readouterr().out == script(shell)


# Input before the key is pressed, and after: a verb, a flag, a kind, names and a value.
TYPED = {
    "tarmac tok": "tarmac token ",
    "tarmac token create --loc": "tarmac token create --location ",
    "tarmac token create --location df": "tarmac token create --location dfw ",
    "tarmac why inst": "tarmac why instance/",
    "tarmac why workload/w": "tarmac why workload/web ",
    "tarmac node remove --force d": "tarmac node remove --force dfw-0 ",
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return the folder of a `tarmac` that is this one, with a server that knows some names."""
    words = "[word for word in sys.argv[1:] if word != '--'][2:]"
    script = f"import sys\nfrom tarmac.apps.completion import candidates\nnames = {NAMES!r}\n"
    script += f"print(*candidates({words}, lambda kind: names.get(kind, [])), sep='\\n')\n"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "words.py").write_text(script)
    tarmac = tmp_path / "bin" / "tarmac"
    tarmac.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/bin/words.py "$@"\n')
    tarmac.chmod(0o755)
    return tarmac.parent


def pressed(shell: list[str], setup: str, environment: dict[str, str], folder: Path) -> dict[str, str]:
    """Type lines in a terminal and press TAB; return the completed lines. `setup` binds ^X to writing the line."""
    terminal, inner = pty.openpty()
    seen: dict[str, str] = {}
    # Without bracketed paste and colours.
    process = subprocess.Popen(
        shell, stdin=inner, stdout=inner, stderr=inner, env={**environment, "TERM": "dumb"}, start_new_session=True
    )
    os.close(inner)
    listening = threading.Thread(target=_drained, args=(terminal,))
    listening.start()
    try:
        os.write(terminal, f". {setup}\n".encode())
        _written(folder / "begun")
        for number, line in enumerate(TYPED):
            os.write(terminal, f"\x15{line}\t\x18".encode())
            seen[line] = _written(folder / f"line-{number}")
    finally:
        process.kill()
        process.wait()
        listening.join()
        os.close(terminal)
    return seen


def _drained(terminal: int) -> None:
    """Read the output: a terminal without a reader stops the shell."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 4096):
            pass


def _written(file: Path) -> str:
    """Return a whole line. Shells write it themselves: another program would keep them from reading keys."""
    deadline = time.monotonic() + 40
    while not (file.exists() and file.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"the shell never wrote {file.name}"
        time.sleep(0.02)
    return file.read_text().removesuffix("\n")


_BASH = """\
. {script}
set +o history
lines=0
dump() {{ echo "$READLINE_LINE" > {folder}/line-$lines; lines=$((lines + 1)); }}
bind -x '"\\C-x": dump'
echo > {folder}/begun
"""
_ZSH = """\
module_path=({root}/usr/lib/x86_64-linux-gnu/zsh/5.9 $module_path)
fpath=({folder}/vendor {root}/usr/share/zsh/functions/**/*(/) $fpath)
autoload -Uz compinit && compinit -u -d {folder}/dump
lines=0
dump() {{ print -r -- "$BUFFER" > {folder}/line-$lines; lines=$((lines + 1)); }}
zle -N dump
bindkey -e
bindkey '^X' dump
echo > {folder}/begun
"""


def test_bash_completes(program: Path, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("NOT RUN: there is no bash")
    (tmp_path / "script").write_text(script("bash"))
    (tmp_path / "setup").write_text(_BASH.format(script=tmp_path / "script", folder=tmp_path))
    environment = {"PATH": f"{program}:/usr/bin:/bin", "HOME": str(tmp_path)}
    assert pressed([bash, "--norc", "--noprofile", "-i"], str(tmp_path / "setup"), environment, tmp_path) == TYPED


def test_zsh_completes(program: Path, tmp_path: Path) -> None:
    """zsh reads the file where the package puts it; this zsh is unpacked and not installed."""
    zsh = found(*ZSH)
    if zsh is None:
        pytest.skip("NOT RUN: there is no zsh to press keys in; python -m tools.fetch_zsh gets Debian's")
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "_tarmac").write_text(script("zsh"))
    (tmp_path / "setup").write_text(_ZSH.format(root=zsh.parents[1], folder=tmp_path))
    environment = {"PATH": f"{program}:/usr/bin:/bin", "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)}
    assert pressed([str(zsh), "-f", "-i"], str(tmp_path / "setup"), environment, tmp_path) == TYPED


async def test_names_are_asked_of_the_server(tmp_path: Path) -> None:
    async with in_process(tmp_path) as client:
        await client.resource(LOCATIONS).create(location_of("dfw", "DFW", "nodes"))
        made = await create_token(client, "dfw", 1, 60.0)
        assert await listed(client, "location", "default") == ["dfw"]
        assert await listed(client, "token", "default") == [made.id]
        for kind in (*KINDS, "externalservice", "node"):
            assert await listed(client, kind, "default") == []


def test_no_server_is_silence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nothing")
    assert main(["completion", "words", "--", "tarmac", "node", "remove", ""]) == 0
    assert capsys.readouterr() == ("", "")


def test_every_verb_has_a_manual_page() -> None:
    manual = pages(0.0)
    assert manual.keys() == {"tarmac.8", *(f"tarmac-{name}.8" for name in command_parsers(parser()))}
    assert "the Location that its nodes belong to" in manual["tarmac-token.8"]
    assert ".B \\-\\-token TOKEN" in manual["tarmac-join.8"]
    assert ".SH EXIT STATUS" in manual["tarmac-leave.8"]
    if (man := shutil.which("man")) is None:
        pytest.skip("NOT RUN: there is no man to look at the pages with")
    for name, text in manual.items():
        shown = subprocess.run(
            [man, "--warnings", "-E", "UTF-8", "-l", "-"], input=text, capture_output=True, text=True,
            env={"MANWIDTH": "100", "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        assert (shown.returncode, shown.stderr) == (0, ""), name
