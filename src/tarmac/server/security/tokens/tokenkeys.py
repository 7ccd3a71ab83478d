"""The keys of service-account tokens: one key signs, all trusted keys verify.

Every server follows the record of these keys (`keyrecords`): each use of a key compares the record's version and reads
it if it has changed. Cached credentials depend on that version, so a retired key's tokens become invalid with the next
request.
"""

from __future__ import annotations

from typing import Any

from tarmac.server.security.keys.keyrecords import BUCKET, TOKENS, decode_record
from tarmac.server.security.tokens.jwt import InvalidToken, SigningKey, parse
from tarmac.store.interface import Entry, Reads


class TokenKeys:
    """The keys as stored now."""

    def __init__(self, store: Reads, first: SigningKey) -> None:
        self._store = store
        self._first = first
        self._read: Entry | None = None
        self._signing = first
        self._trusted = {first.id: first}

    def sign(self, claims: dict[str, Any]) -> str:
        """Return the token for these claims."""
        self._refresh()
        return self._signing.sign(claims)

    def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a token signed by a trusted key. Raises InvalidToken. The caller checks the expiry."""
        self._refresh()
        found = parse(token)
        name = found.header.get("kid")
        key = self._trusted.get(name) if isinstance(name, str) else None
        if key is None:
            raise InvalidToken
        return key.verified(found)

    @property
    def hold(self) -> tuple[str, str, Entry | None]:
        """The record's version used by the last check, for a `Credential`."""
        return BUCKET, TOKENS, self._read

    @property
    def trusted(self) -> tuple[str, ...]:
        """The ids of the trusted keys."""
        self._refresh()
        return tuple(self._trusted)

    @property
    def algorithms(self) -> list[str]:
        """The signing algorithms of the trusted keys."""
        self._refresh()
        return sorted({key.algorithm for key in self._trusted.values()})

    def public_jwks(self) -> list[dict[str, str]]:
        """Return the public keys, for other services that verify tokens."""
        self._refresh()
        return [key.public_jwk() for key in self._trusted.values()]

    def _refresh(self) -> None:
        current = self._store.get(BUCKET, TOKENS)
        if current is self._read:
            return
        if current is None:
            self._signing, self._trusted = self._first, {self._first.id: self._first}
        else:
            record = decode_record(current.raw)
            self._trusted = {name: SigningKey(kept.pem.encode()) for name, kept in record.keys.items()}
            self._signing = self._trusted[record.signing]
        # Last: a record that does not parse is read again with the next use, instead of counting as read.
        self._read = current
