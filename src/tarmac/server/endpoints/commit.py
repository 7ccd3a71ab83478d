"""The commit that this program was built from, read from its package or its checkout."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import tarmac

PACKAGED: Final = "COMMIT"
"""The file that `tools/package.py` writes beside the modules."""


@cache
def commit() -> str:
    """Return the hash; empty if unknown."""
    return commit_of(Path(tarmac.__file__).parent)


def commit_of(package: Path) -> str:
    """Return the hash that belongs to a directory of modules."""
    try:
        if (package / PACKAGED).exists():
            return (package / PACKAGED).read_text().strip()
        return _checked_out(package.parents[1] / ".git")
    except OSError:
        return ""


def _checked_out(git: Path) -> str:
    head = (git / "HEAD").read_text().strip()
    name = head.removeprefix("ref: ")
    if name == head:
        return head  # detached
    if (git / name).exists():
        return (git / name).read_text().strip()
    packed = (line.split() for line in (git / "packed-refs").read_text().splitlines())
    return next((fields[0] for fields in packed if fields[1:] == [name]), "")
