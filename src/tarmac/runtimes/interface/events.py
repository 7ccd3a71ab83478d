"""Changes of a pod's sandboxes and containers, told without being asked for.

An event means that the agent looks again, unless it knows already. A runtime may repeat itself, and after a lost
connection it starts with `None`, which means "look at everything".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """Something about a container or sandbox of this pod changed; with its id when the runtime tells what."""

    pod_uid: str
    id: str = ""
    what: Literal["created", "started", "stopped", "deleted", ""] = ""


class EventSource(Protocol):
    """Tells of changes."""

    def events(self) -> AsyncGenerator[RuntimeEvent | None]:
        """Changes as they come, for ever; None: look at everything."""
        ...
