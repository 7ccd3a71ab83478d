"""One watch for several readers, each of which keeps only the fields it needs.

An informer keeps every object as it was sent. Where thousands of objects matter for a few fields each, a feed passes
them to its sinks and keeps nothing; `Kept` is such a sink: it keeps the result of a function of each object, and calls
back when that result changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from tarmac.base.cooperative import CooperativeWork
from tarmac.base.exhaustion import end_if_out_of_memory
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.reflector import Reflector, Sink
from tarmac.client.targets.target import Target
from tarmac.client.watch import Change

T = TypeVar("T")

_log = log("feed")


class Feed:
    """Passes every object of a resource to all sinks added before it ran."""

    def __init__(self, client: Client, target: Target[Any]) -> None:
        self._reflector = Reflector(client, target, self)
        self._sinks: list[Sink] = []

    def add(self, sink: Sink) -> None:
        """Add a reader, from the beginning."""
        assert not self._reflector.synced.is_set(), "a sink added later would miss earlier events"
        self._sinks.append(sink)

    @property
    def has_synced(self) -> bool:
        """True if the sinks have a complete state."""
        return self._reflector.synced.is_set()

    async def synced(self) -> None:
        """Wait until the sinks have a complete state."""
        await self._reflector.synced.wait()

    async def run(self) -> NoReturn:
        """Feed until cancelled."""
        await self._reflector.run()

    def replaced(self, state: Sequence[Change]) -> CooperativeWork[None]:
        """Pass on a whole state."""
        for sink in self._sinks:
            yield from sink.replaced(state)

    def changed(self, change: Change) -> None:
        """Pass on one change."""
        for sink in self._sinks:
            sink.changed(change)


class Kept(Generic[T]):
    """A sink that keeps `read(object)` by key, and calls `on_change` when it differs. None is not kept.

    An object that cannot be read is logged and counts as None.
    """

    def __init__(
        self, read: Callable[[Change], T | None], on_change: Callable[[str, T | None, T | None], None]
    ) -> None:
        self.by_key: dict[str, T] = {}
        self._uids: dict[str, str] = {}
        self._read = read
        self._on_change = on_change

    def replaced(self, state: Sequence[Change]) -> CooperativeWork[None]:
        """Take a whole new state. Removals come first: a new object may have the address of a removed one."""
        present = {change.metadata.key for change in state}
        for key in [key for key in self.by_key if key not in present]:
            self._keep(key, "", None)
            yield
        for change in state:
            self._put(change)
            yield

    def changed(self, change: Change) -> None:
        """Take one change. A late deletion of an object whose name was reused is ignored."""
        key = change.metadata.key
        if change.type != "DELETED":
            self._put(change)
        elif self._uids.get(key) == change.metadata.uid:
            self._keep(key, "", None)

    def _put(self, change: Change) -> None:
        try:
            found = self._read(change)
        except Exception as error:  # one malformed object must not stop the other objects
            end_if_out_of_memory(error)
            _log.warning("object cannot be read", key=change.metadata.key, error=repr(error))
            found = None
        self._keep(change.metadata.key, change.metadata.uid, found)

    def _keep(self, key: str, uid: str, value: T | None) -> None:
        old = self.by_key.get(key)
        if value is None:
            self.by_key.pop(key, None)
            self._uids.pop(key, None)
        else:
            self.by_key[key], self._uids[key] = value, uid
        if old != value:
            self._on_change(key, old, value)
