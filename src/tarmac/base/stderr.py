"""Error and warning lines of the command line, in one form: `error: subject: problem; what to do`."""

from __future__ import annotations

import sys


def print_error(problem: object) -> None:
    """Print an error to stderr."""
    _print(f"error: {problem}")


def print_warning(problem: object) -> None:
    """Print a warning to stderr."""
    _print(f"warning: {problem}")


def _print(text: str) -> None:
    """Print lines without control characters: messages quote files and answers that other users wrote."""
    shown = text if text.isprintable() else "".join(each if _is_shown(each) else "\ufffd" for each in text)
    print(shown, file=sys.stderr, flush=True)


def _is_shown(character: str) -> bool:
    return character.isprintable() or character in "\n\t"
