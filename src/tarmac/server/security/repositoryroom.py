"""Which repositories of the registry may be used: those of a namespace that is there, and pushed to while it has room.

The registry keeps what was pushed and knows no namespaces. Whoever runs it measures what those of each namespace take,
and notes for which namespace they were pushed: one that is made anew under an old name gets nothing of the old one's.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.api.repositories import PUSH
from tarmac.server.reader import Reader

_NAMESPACES = "core/namespaces"
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


class RepositoryRoom:
    """What is known of the repositories, by namespace. Without a registry nothing is, and nothing is limited."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.most: int | None = None  # bytes that those of one namespace may take
        self.used: Mapping[str, int] = {}
        self.owners: dict[str, str] = {}  # the uid of the namespace that they were pushed for

    def refusal(self, namespace: str, action: str) -> str | None:
        """Why somebody who has the right may not do so now."""
        found = self._reader.get(_NAMESPACES, namespace)
        if found is None:
            return f'the namespace "{namespace}" does not exist'
        uid = found["metadata"]["uid"]
        if self.owners.get(namespace, uid) != uid:
            return f'what was pushed to an earlier namespace "{namespace}" is being removed: try again in a minute'
        if action != PUSH:
            return None
        used = self.used.get(namespace, 0)
        if self.most is not None and used >= self.most:
            return f'the namespace "{namespace}" has pushed {_size(used)}, and may have {_size(self.most)}'
        self.owners[namespace] = uid  # before the first layer is there
        return None


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} {_UNITS[-1]}"
