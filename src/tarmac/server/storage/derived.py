"""What is worked out of one version of an object, once, for every list and watch that shows it.

It is kept at the version itself: whoever holds the entry has it, and it goes when the entry goes, be that because the
object was deleted, because its version fell out of the history, or because the store was loaded anew. So there is
nothing to look up, to bound or to forget.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.server.printing.table import Row
from tarmac.store.interface import Entry


class Selected(NamedTuple):
    """What selectors may look at."""

    labels: dict[str, str]
    fields: dict[str, str]


class Derived:
    """The parts that somebody has asked for."""

    __slots__ = ("metadata_end", "row", "selected")

    def __init__(self) -> None:
        self.selected: Selected | None = None
        self.row: Row | None = None
        self.metadata_end = 0  # where in the bytes the metadata ends


def derived(entry: Entry) -> Derived:
    """What is known of this version."""
    found: Derived | None = entry.memo
    if found is None:
        found = entry.memo = Derived()
    return found
