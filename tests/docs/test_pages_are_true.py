"""Commands, flags, files, pages and headings in the pages exist."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.apps.commands import parser
from tarmac.decide import reasons
from tests.docs.pages import code, pages, prose
from tools.cache import ROOT

COMMANDS_PAGE = ROOT / "docs" / "reference" / "commands.md"
# a program's name and arguments, up to the next command
_COMMAND = re.compile(r"(?:^|[\s/(])tarmac (?P<rest>[a-z][^|;&`]*)")
_FLAG = re.compile(r"(?<!\S)--[a-z][a-z-]*")
_LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]+))?\)")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_FILE = re.compile(r"(?:tests|tools|docs|examples|src|benchmarks|plugins|third_party)/[\w./-]*\w")
# Tarmac's own output: "tarmac ready https://…", "tarmac is not on the PATH"
_SAID = ("ready", "is")

_PAGES = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages()]


def commands() -> dict[str, set[str]]:
    """Every command, with the flags it takes."""
    found: dict[str, set[str]] = {}
    for name, action in options():
        found.setdefault(name, set()).update(action.option_strings)
    return found


def options(command: argparse.ArgumentParser | None = None, name: str = "") -> Iterator[tuple[str, argparse.Action]]:
    """The options of all commands."""
    for action in (command or parser())._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                yield from options(inner, f"{name} {word}".strip())
        yield name, action


def wrong_commands(text: str) -> list[str]:
    """The commands in a page that the command line would reject."""
    known, wrong = commands(), list[str]()
    for line in code(text):
        for match in _COMMAND.finditer(line):
            words = match["rest"].split()
            if words[0] in _SAID:
                continue
            names = [name for name in known if words[: len(name.split())] == name.split() and name]
            flags = set[str]().union(*(known[name] for name in names))
            unknown = sorted(set(_FLAG.findall(match["rest"])) - flags)
            if not names or unknown:
                wrong.append(f"tarmac {match['rest'].strip()}: {', '.join(unknown) or 'no such command'}")
    return wrong


def anchors(page: Path) -> set[str]:
    """The anchors of a page, as GitHub names its headings."""
    kept = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(page.read_text())]
    return {each.strip().replace(" ", "-") for each in kept}


@pytest.mark.parametrize("page", _PAGES)
def test_every_command_and_flag_exists(page: Path) -> None:
    assert wrong_commands(page.read_text()) == []


def test_a_command_that_does_not_exist_is_noticed() -> None:
    text = "`tarmac fly`, `tarmac up --wings` and\n\n```\n$ tarmac why web | tarmac image load a.tar --wheels\n```\n"
    assert [line.partition(": ")[0] for line in wrong_commands(text)] == [
        "tarmac fly",
        "tarmac up --wings",
        "tarmac image load a.tar --wheels",
    ]


def test_every_flag_is_documented() -> None:
    told = COMMANDS_PAGE.read_text()
    spellings = [(name, action.option_strings) for name, action in options() if action.option_strings]
    missing = [f"tarmac {name} {flags}" for name, flags in spellings if not any(flag in told for flag in flags)]
    assert missing == []


@pytest.mark.parametrize("page", _PAGES)
def test_every_link_leads_somewhere(page: Path) -> None:
    lost: list[str] = []
    for target, anchor in _LINK.findall(prose(page.read_text())):
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            lost.append(f"{target}#{anchor}" if anchor else target)
    assert lost == []


@pytest.mark.parametrize("page", _PAGES)
def test_every_file_that_is_named_is_there(page: Path) -> None:
    named = {found for each in code(page.read_text()) for found in _FILE.findall(each) if each.startswith(found)}
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_every_how_to_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    folders = [folder for folder in (ROOT / "docs").iterdir() if folder.is_dir() and folder.name != "checklists"]
    inside = [page.relative_to(ROOT / "docs") for folder in folders for page in folder.glob("*.md")]
    assert [str(page) for page in inside if f"({page})" not in index] == []


def test_every_reason_of_public_addresses_has_a_remedy() -> None:
    page = (ROOT / "docs" / "how-to" / "troubleshoot.md").read_text()
    section = page.partition("## Public addresses that are not reached")[2].partition("\n## ")[0]
    lacking = [
        reasons.NO_POOL,
        reasons.POOL_NOT_FOUND,
        reasons.NOT_AUTHORIZED,
        reasons.POOL_EXHAUSTED,
        reasons.QUOTA_EXCEEDED,
        reasons.ADDRESS_IN_USE,
        reasons.ADDRESS_QUARANTINED,
        reasons.ADDRESS_CONFLICT,
        reasons.PORT_CONFLICT,
        reasons.POLICY_MISMATCH,
        reasons.NO_PORTS,
        reasons.NO_ENDPOINTS,
        reasons.NO_READY_INSTANCE,
        reasons.NO_GATEWAY,
        reasons.NO_OUTSIDE_INTERFACE,
        reasons.NO_PEER,
        reasons.SESSION_DOWN,
        reasons.SELF_TEST_FAILED,
        reasons.TOO_MANY_PREFIXES,
        reasons.SPEAKER_MISSING,
        reasons.DRAINING,
        reasons.WITHDRAWN,
        reasons.NOT_ANNOUNCED,
        reasons.PARTLY_ANNOUNCED,
    ]
    assert [each for each in lacking if f"`{each}`" not in section] == []
