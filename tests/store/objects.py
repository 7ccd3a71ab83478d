"""Values to store, and short forms of results."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tarmac.store.interface import Entry, Event

PODS = "core/pods"
SECRETS = "core/secrets"


def value(text: str = "x", size: int = 0) -> bytes:
    """An object as the server stores it: no resource version, metadata first."""
    return json.dumps({"metadata": {"name": text}, "pad": "p" * size}, separators=(",", ":")).encode()


def decoded(entry: Entry) -> dict[str, Any]:
    """Return the complete object."""
    return json.loads(entry.raw)


def text(entry: Entry) -> str:
    """Return the text that was given to `value`."""
    return decoded(entry)["metadata"]["name"]


def names(entries: Iterable[Entry]) -> list[str]:
    """Return their names."""
    return [entry.name for entry in entries]


def told(events: Iterable[Event]) -> list[tuple[str, str, str]]:
    """Return type, name and text of each."""
    return [(event.type, event.entry.name, text(event.entry)) for event in events]


def revisions(events: Iterable[Event]) -> list[int]:
    """Return their revisions."""
    return [event.entry.revision for event in events]
