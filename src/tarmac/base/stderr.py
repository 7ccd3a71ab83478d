"""Error and warning lines of the command line, in one form: `error: subject: problem; what to do`."""

from __future__ import annotations

import sys


def print_error(problem: object) -> None:
    """Print an error to stderr."""
    print(f"error: {problem}", file=sys.stderr, flush=True)


def print_warning(problem: object) -> None:
    """Print a warning to stderr."""
    print(f"warning: {problem}", file=sys.stderr, flush=True)
