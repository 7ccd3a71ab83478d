"""Checked credentials, and the cache of them.

Checking a token costs a signature verification; using it again costs a few lookups. A cached check is valid until it
expires or until one of the objects it depends on has a different version, so no invalidation is needed.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.base.clock import Clock
from tarmac.server.security.users import User
from tarmac.store.interface import Entry, Store

Holds = tuple[tuple[str, str, Entry | None], ...]
"""(bucket, name, version) of every object that a credential depends on; None: the object did not exist."""

_MAX_CACHED = 10_000


class Credential(NamedTuple):
    """The user of a credential, and the validity of its check."""

    user: User
    expires: float  # wall clock
    holds: Holds = ()
    audiences: tuple[str, ...] = ()


class CredentialCache:
    """Checked credentials by the presented token or certificate. The oldest entries are evicted first."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str | bytes, Credential] = {}

    def get(self, presented: str | bytes) -> User | None:
        """Return the user, or None if there is no valid check."""
        credential = self._known.get(presented)
        if credential is None:
            return None
        if credential.expires > self._clock.now():
            get = self._store.get
            for bucket, name, entry in credential.holds:
                # By identity: every version has an entry of its own, so a deleted and recreated object never counts as
                # the same.
                if get(bucket, name) is not entry:
                    break
            else:
                return credential.user
        del self._known[presented]
        return None

    def keep(self, presented: str | bytes, credential: Credential) -> User:
        """Add a check and return its user."""
        if len(self._known) >= _MAX_CACHED:
            # Only checked credentials get here: a flood of invalid tokens evicts nothing.
            del self._known[next(iter(self._known))]
        self._known[presented] = credential
        return credential.user
