"""How a container ended, in words: exit code, signal, and the last lines it left.

All of it is in the Pod's status. Containers of instances fall back to their logs for a last message, so the lines are
there without asking a node. They are somebody else's words: what a terminal would obey is not passed on.
"""

from __future__ import annotations

import signal
from typing import Final

from tarmac.api.declare import Struct

NOT_STARTED: Final = frozenset(("StartError", "ContainerCannotRun"))
"""What runtimes say of a container whose program could not even be begun."""

_SIGNALS: Final = 128  # above it, shells and runtimes tell the signal that ended a program
_SHELL_WORDS: Final = {126: "not executable", 127: "command not found"}
_LINES, _LONGEST = 3, 160


class Terminated(Struct):
    """The end of a container."""

    reason: str = ""
    message: str = ""
    exit_code: int = 0
    signal: int = 0


def ending(ended: Terminated) -> str:
    """`exit code 137, SIGKILL; last lines: …`."""
    lines = last_lines(ended.message)
    return how(ended) + (f"; last lines: {lines}" if lines else "")


def how(ended: Terminated) -> str:
    """`exit code 137, SIGKILL`."""
    code = ended.exit_code
    said = _SHELL_WORDS.get(code) or _signal_name(ended.signal or code - _SIGNALS)
    return f"exit code {code}" + (f", {said}" if said else "")


def last_lines(text: str) -> str:
    """The last few lines in one, each cut to what fits a sentence."""
    lines = [line.strip() for line in text.splitlines() if line.strip()][-_LINES:]
    return " / ".join(_printable(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…") for line in lines)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _printable(line: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in line)
