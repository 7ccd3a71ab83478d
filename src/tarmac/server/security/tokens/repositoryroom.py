"""Limits on the registry's repositories: their namespace must exist, and pushes must fit its quota.

The registry stores images and knows no namespaces. The process that runs it measures the size of each namespace's
repositories and records the uid of the namespace they were pushed for: a namespace recreated under an old name must not
get the images of the old one. Nor may tokens of the old one work for the new one; a token names no uid, since the
registry could not compare it. So a name with tokens of an earlier namespace gets no token until the registry has been
started again, with a new key.
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
        self.holders: dict[str, str] = {}  # the uid of the namespace that tokens of the current key were issued for
        self.key_version = 0  # number of keys that this process has replaced

    def refusal(self, namespace: str, action: str, size: int = 0) -> str | None:
        """Return the reason why an authorized user cannot do this now, or None. `size`: bytes about to be pushed."""
        found = self._reader.get(_NAMESPACES, namespace)
        if found is None:
            return f'the namespace "{namespace}" does not exist'
        uid = found["metadata"]["uid"]
        if self.owners.get(namespace, uid) != uid:
            return f'what was pushed to an earlier namespace "{namespace}" is being removed: try again in a minute'
        if self.holders.get(namespace, uid) != uid:
            return f'tokens of an earlier namespace "{namespace}" are being invalidated: try again in a minute'
        full = self._full(namespace, size) if action == PUSH else None
        if full is not None:
            return full
        self.holders[namespace] = uid
        if action == PUSH:
            self.owners[namespace] = uid  # recorded before the first layer arrives
        return None

    def key_replaced(self) -> None:
        """Record that a new key signs: no earlier token is valid when the registry has started."""
        # In one step of the event loop: the clearing must not remove the holder of a token of the new key.
        self.key_version += 1
        self.holders.clear()

    def _full(self, namespace: str, size: int) -> str | None:
        """Return the reason why so many bytes do not fit, or None."""
        used = self.used.get(namespace, 0)
        if self.most is not None and used >= self.most:
            return f'the namespace "{namespace}" has pushed {_size(used)}, and may have {_size(self.most)}'
        if self.most is not None and used + size > self.most:
            rest = f"{_size(used)} of {_size(self.most)} are used"
            return f'{_size(size)} do not fit into the registry quota of the namespace "{namespace}": {rest}'
        if self.free is not None and size > self.free:
            return f"{_size(size)} do not fit on the registry's disk, which has room for {_size(self.free)}"
        return None


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} {_UNITS[-1]}"
