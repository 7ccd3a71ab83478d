"""Limits on the registry's repositories: their namespace must exist, and pushes must fit its quota.

The registry stores images and knows no namespaces. The process that runs it measures the size of each namespace's
repositories and records the uid of the namespace they were pushed for: a namespace recreated under an old name must not
get the images of the old one.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.api.repositories import PUSH
from tarmac.server.reader import Reader

_NAMESPACES = "core/namespaces"
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


class RepositoryRoom:
    """Sizes and owners of the repositories, by namespace. Without a registry it is empty and sets no limit."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.most: int | None = None  # maximum bytes of the repositories of one namespace
        self.free: int | None = None  # bytes that the registry's disk has room for
        self.used: Mapping[str, int] = {}
        self.owners: dict[str, str] = {}  # the uid of the namespace that they were pushed for

    def refusal(self, namespace: str, action: str, size: int = 0) -> str | None:
        """Return the reason why an authorized user cannot do this now, or None. `size`: bytes about to be pushed."""
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
        if self.most is not None and used + size > self.most:
            rest = f"{_size(used)} of {_size(self.most)} are used"
            return f'{_size(size)} do not fit into the registry quota of the namespace "{namespace}": {rest}'
        if self.free is not None and size > self.free:
            return f"{_size(size)} do not fit on the registry's disk, which has room for {_size(self.free)}"
        self.owners[namespace] = uid  # recorded before the first layer arrives
        return None


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} {_UNITS[-1]}"
