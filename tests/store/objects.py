"""Values to store, and short ways to look at what comes back."""

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
    """The complete object."""
    return json.loads(entry.raw)


def text(entry: Entry) -> str:
    """What was given to `value`."""
    return decoded(entry)["metadata"]["name"]


def names(entries: Iterable[Entry]) -> list[str]:
    """Their names."""
    return [entry.name for entry in entries]


def told(events: Iterable[Event]) -> list[tuple[str, str, str]]:
    """Type, name and text of each."""
    return [(event.type, event.entry.name, text(event.entry)) for event in events]


def revisions(events: Iterable[Event]) -> list[int]:
    """Their revisions."""
    return [event.entry.revision for event in events]
