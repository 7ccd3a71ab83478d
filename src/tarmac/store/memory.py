"""The driver without durability: for tests, simulations and the model that the others are compared with.

Writes resolve on a later turn of the loop, as with the other drivers, so code that works here works there.
"""

from __future__ import annotations

from tarmac.store.local import LocalStore, Write


class MemoryStore(LocalStore):
    """Everything is gone when the process ends."""

    def _commit(self, batch: list[Write]) -> None:
        self._committed(batch)
        self._next_batch()
