"""Error and warning lines of the command line, in one form: `error: subject: problem; what to do`."""

from __future__ import annotations

import os
import sys


def print_error(problem: object) -> None:
    """Print an error to stderr."""
    _print(f"error: {_sentence(problem)}")


def print_warning(problem: object) -> None:
    """Print a warning to stderr."""
    _print(f"warning: {_sentence(problem)}")


def file_problem(error: OSError) -> str:
    """Return what is wrong with a file, without its name: `permission denied; run this command as root`."""
    reason = (error.strerror or str(error)).lower()
    if isinstance(error, PermissionError) and os.geteuid() != 0:
        return f"{reason}; run this command as root, or as the owner"
    return reason


def _sentence(problem: object) -> object:
    """Return an error about a file as its name and the problem; Python puts a number first and the name last."""
    if isinstance(problem, OSError) and isinstance(problem.filename, str | os.PathLike):
        return f"{os.fspath(problem.filename)}: {file_problem(problem)}"
    return problem


def _print(text: str) -> None:
    """Print lines without control characters: messages quote files and answers that other users wrote."""
    shown = text if text.isprintable() else "".join(each if _is_shown(each) else "\ufffd" for each in text)
    print(shown, file=sys.stderr, flush=True)


def _is_shown(character: str) -> bool:
    return character.isprintable() or character in "\n\t"
