"""The end of a container as text: exit code, signal, and its last log lines.

All of it is in the Pod's status. Containers of instances fall back to their logs for a termination message, so the
lines are available without a request to the node. The lines are untrusted: control characters are replaced, so that a
terminal cannot interpret them.
"""

from __future__ import annotations

import signal
from typing import Final

from tarmac.api.declare import Struct

NOT_STARTED: Final = frozenset(("StartError", "ContainerCannotRun"))
"""Reasons that runtimes give when a container's program could not be started."""

PANIC: Final = "Kernel panic"
"""The start of Linux's first message in a panic; the same line has the reason."""

_SIGNALS: Final = 128  # exit codes above it encode the signal that ended a program
_SHELL_WORDS: Final = {126: "not executable", 127: "command not found"}
_LINES, _MAX_LINE = 3, 160


class Terminated(Struct):
    """The termination state of a container."""

    reason: str = ""
    message: str = ""
    exit_code: int = 0
    signal: int = 0


def ending(ended: Terminated) -> str:
    """Return a text such as `exit code 137, SIGKILL; last lines: …`."""
    lines = last_lines(ended.message)
    return how(ended) + (f"; last lines: {lines}" if lines else "")


def how(ended: Terminated) -> str:
    """Return a text such as `exit code 137, SIGKILL`."""
    code = ended.exit_code
    meaning = _SHELL_WORDS.get(code) or _signal_name(ended.signal or code - _SIGNALS)
    return f"exit code {code}" + (f", {meaning}" if meaning else "")


def last_lines(text: str, keep: str = "") -> str:
    """Join the last `_LINES` lines, each cut to `_MAX_LINE` characters.

    The last line containing `keep` is among them.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    shown = lines[-_LINES:]
    kept = next((line for line in reversed(lines) if keep in line), "") if keep else ""
    if kept and kept not in shown:
        shown[:1] = [kept]
    return " / ".join(_printable(line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…") for line in shown)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _printable(line: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in line)
