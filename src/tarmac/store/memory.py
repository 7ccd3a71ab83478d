"""The driver without durability: for tests, simulations and as the model that other drivers are compared with.

Writes resolve in a later loop iteration, as with the other drivers, so code that works here works there.
"""

from __future__ import annotations

from tarmac.store.local import LocalStore, Write


class MemoryStore(LocalStore):
    """A store whose contents are lost when the process ends."""

    def _commit(self, batch: list[Write]) -> None:
        self._committed(batch)
        self._next_batch()
