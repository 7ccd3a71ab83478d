"""Notifications of changes of a pod's sandboxes and containers.

On an event the agent inspects the pod again, unless it made the change itself. A runtime may repeat events. After a
lost connection it starts with `None`, which means "list everything".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """A container or sandbox of this pod changed; `id` and `what` are set when the runtime reports them."""

    pod_uid: str
    id: str = ""
    what: Literal["created", "started", "stopped", "deleted", ""] = ""


class EventSource(Protocol):
    """Reports changes."""

    def events(self) -> AsyncGenerator[RuntimeEvent | None]:
        """Yield changes for ever; None: list everything."""
        ...
