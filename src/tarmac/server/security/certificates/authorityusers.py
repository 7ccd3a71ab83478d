"""Users seen with certificates of the authority to be retired, with the time of last use, for `--retire`.

Stored next to the keys (`tarmac/keys`), since any server may have seen a user and any server may be asked. Cached
checks of such certificates expire hourly (`WRITE_INTERVAL`), so the record is accurate to the hour and costs one write
per user and hour, only during a rotation of the authority.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from tarmac.base.clock import Clock, parse_rfc3339, rfc3339
from tarmac.server.security.keys.keyrecords import BUCKET
from tarmac.store.interface import Exists, Missing, RevisionConflict, Store

WRITE_INTERVAL: Final = 3600.0
NAME: Final = "ca-users"
MAX_AGE: Final = 7 * 24 * 3600.0
_MAX_USERS = 10_000


class _Seen(msgspec.Struct, frozen=True):
    metadata: dict[str, str]
    users: dict[str, str]


class OldCertificateUsers:
    """Users seen by this process and not written yet, and the users that all servers have written."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._noted: dict[str, float] = {}

    def note(self, user: str) -> None:
        """Record a user."""
        if len(self._noted) < _MAX_USERS:
            self._noted[user] = self._clock.now()

    def seen(self) -> Iterator[str]:
        """Yield the users of the last seven days."""
        now = self._clock.now()
        for user, at in sorted({**self._written(), **self._noted}.items()):
            if now - at < MAX_AGE:
                yield user

    async def write(self) -> None:
        """Write the recorded users to the store, for all servers. Raises Unavailable."""
        while self._noted:
            taken = dict(self._noted)
            entry = self._store.head(BUCKET, NAME)
            known = {user: at for user, at in self._written().items() if self._clock.now() - at < MAX_AGE}
            users = {user: rfc3339(at) for user, at in sorted({**known, **taken}.items())}
            value = msgspec.json.encode(_Seen({"name": NAME}, users))
            try:
                if entry is None:
                    await self._store.create(BUCKET, NAME, value)
                else:
                    await self._store.update(BUCKET, NAME, value, entry.revision)
            except (Exists, RevisionConflict, Missing):
                continue
            # Keep entries that were recorded during the write: they are newer than the written ones.
            self._noted = {user: at for user, at in self._noted.items() if at > taken.get(user, 0.0)}

    def _written(self) -> dict[str, float]:
        entry = self._store.head(BUCKET, NAME)
        users = msgspec.json.decode(entry.raw, type=_Seen).users if entry is not None else {}
        return {user: parse_rfc3339(at) for user, at in users.items()}
