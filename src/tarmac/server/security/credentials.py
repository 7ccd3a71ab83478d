"""A credential that has been checked, and how long the check holds.

Checking a token costs a signature; using it again costs a few look-ups. The result stays good until it expires or until
one of the objects it hangs on is another version than the one that was looked at, so there is nothing to invalidate.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.base.clock import Clock
from tarmac.server.security.users import User
from tarmac.store.interface import Entry, Store

Holds = tuple[tuple[str, str, Entry | None], ...]
"""(bucket, name, version) of every object a credential hangs on; None says that there was none."""

_MOST = 10_000


class Credential(NamedTuple):
    """Who a credential speaks for."""

    user: User
    expires: float  # wall clock
    holds: Holds = ()
    audiences: tuple[str, ...] = ()


class CredentialCache:
    """Checked credentials by what was presented. The oldest make room for new ones."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str | bytes, Credential] = {}

    def get(self, presented: str | bytes) -> User | None:
        """The user, while the check still holds."""
        credential = self._known.get(presented)
        if credential is None:
            return None
        if credential.expires > self._clock.now():
            get = self._store.get
            for bucket, name, entry in credential.holds:
                if get(bucket, name) is not entry:
                    break
            else:
                return credential.user
        del self._known[presented]
        return None

    def keep(self, presented: str | bytes, credential: Credential) -> User:
        """Remember a check."""
        if len(self._known) >= _MOST:
            del self._known[next(iter(self._known))]
        self._known[presented] = credential
        return credential.user
