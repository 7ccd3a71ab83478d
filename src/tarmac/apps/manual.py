"""Manual pages, one for each verb, from the same texts as `--help`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime

from tarmac import __version__
from tarmac.apps.commands import parser
from tarmac.cli.command import command_parsers

_SECTION = 8


def pages(when: float) -> dict[str, str]:
    """Return the text of each page by its file name. `when` is the date on them."""
    top = parser()
    # The one-line help in a list of commands.
    [commands] = [each for each in top._actions if isinstance(each, argparse._SubParsersAction)]  # pyright: ignore[reportPrivateUsage]
    short = {each.dest: each.help or "" for each in commands._choices_actions}  # pyright: ignore[reportPrivateUsage]
    found = {f"tarmac.{_SECTION}": "\n".join(_overview(top, short, when)) + "\n"}
    for name, command in command_parsers(top).items():
        if name in short:
            found[f"tarmac-{name}.{_SECTION}"] = "\n".join(_page(name, command, short[name], when)) + "\n"
    return found


def _overview(top: argparse.ArgumentParser, short: dict[str, str], when: float) -> Iterator[str]:
    yield _title("tarmac", when)
    yield from (".SH NAME", f"tarmac \\- {_text(top.description or '')}", ".SH SYNOPSIS", ".B tarmac")
    yield from (_text("COMMAND [FLAG]…"), ".SH COMMANDS")
    for name, summary in short.items():
        yield from (".TP", f".BR tarmac\\-{_text(name)} ({_SECTION})", _text(summary))


def _page(name: str, command: argparse.ArgumentParser, summary: str, when: float) -> Iterator[str]:
    yield _title(f"tarmac-{name}", when)
    yield from (".SH NAME", f"tarmac\\-{_text(name)} \\- {_text(summary)}", ".SH SYNOPSIS")
    yield from _usage(command)
    below = [each for each in command._actions if isinstance(each, argparse._SubParsersAction)]  # pyright: ignore[reportPrivateUsage]
    yield from _options("OPTIONS", command)
    for action in below:
        short = {each.dest: each.help or "" for each in action._choices_actions}  # pyright: ignore[reportPrivateUsage]
        for verb, inner in action.choices.items():
            if verb in short:
                yield from (f".SH {_text(f'{name} {verb}').upper()}", _text(short[verb]), ".PP")
                yield from _usage(inner)
                yield from _options("", inner)
                yield from ((".PP", _text(inner.epilog)) if inner.epilog else ())
    if command.epilog:
        yield from (".SH EXIT STATUS", _text(command.epilog.removeprefix("Exit codes: ")))
    yield from (".SH SEE ALSO", f".BR tarmac ({_SECTION})")


def _usage(command: argparse.ArgumentParser) -> Iterator[str]:
    words = command.format_usage().removeprefix("usage: ").split()
    yield from (".nf", *_wrapped(words), ".fi")


def _wrapped(words: list[str]) -> Iterator[str]:
    line = ""
    for word in words:
        if len(line) + len(word) > 76:
            yield _text(line)
            line = "   "
        line += f" {word}" if line else word
    yield _text(line)


def _options(heading: str, command: argparse.ArgumentParser) -> Iterator[str]:
    shown = [each for each in command._actions if not isinstance(each, argparse._SubParsersAction)]  # pyright: ignore[reportPrivateUsage]
    if heading:
        yield f".SH {heading}"
    for action in shown:
        names = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        value = "" if action.nargs == 0 or not action.option_strings else f" {action.metavar or action.dest.upper()}"
        help_text = command._get_formatter()._expand_help(action) if action.help else ""  # pyright: ignore[reportPrivateUsage]
        yield from (".TP", f".B {_text(names + value)}", _text(help_text))


def _title(name: str, when: float) -> str:
    date = datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d")
    return f'.TH {_text(name).upper()} {_SECTION} "{date}" "tarmac {__version__}" "Tarmac"'


def _text(text: str) -> str:
    """Escape text, so that the formatter finds no commands in it."""
    escaped = " ".join(text.split()) if text.strip() == text else text
    escaped = escaped.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
