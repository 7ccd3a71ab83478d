"""The keys that sign service-account tokens: one signs, and every one that is trusted recognises its own.

Every server goes by the record of these keys (`keyrecords`): it is looked at whenever a key is needed, and read when it
is another version than the one that was read. Credentials that were checked hang on that version, so a key that is
retired ends its tokens with the next request.
"""

from __future__ import annotations

from typing import Any

from tarmac.server.security.jwt import InvalidToken, SigningKey, parse
from tarmac.server.security.keyrecords import BUCKET, TOKENS, decode_record
from tarmac.store.interface import Entry, Reads


class TokenKeys:
    """The keys as the store has them now."""

    def __init__(self, store: Reads, first: SigningKey) -> None:
        self._store = store
        self._first = first
        self._read: Entry | None = None
        self._signing = first
        self._trusted = {first.id: first}

    def sign(self, claims: dict[str, Any]) -> str:
        """The token for some claims."""
        self._refresh()
        return self._signing.sign(claims)

    def verify(self, token: str) -> dict[str, Any]:
        """The claims of a token that a trusted key signed. Raises InvalidToken. Expiry is the caller's business."""
        self._refresh()
        found = parse(token)
        name = found.header.get("kid")
        key = self._trusted.get(name) if isinstance(name, str) else None
        if key is None:
            raise InvalidToken
        return key.verified(found)

    @property
    def hold(self) -> tuple[str, str, Entry | None]:
        """What the last check hangs on, for a `Credential`."""
        return BUCKET, TOKENS, self._read

    @property
    def trusted(self) -> tuple[str, ...]:
        """The ids of the keys that are trusted."""
        self._refresh()
        return tuple(self._trusted)

    @property
    def algorithms(self) -> list[str]:
        """How tokens are signed."""
        self._refresh()
        return sorted({key.algorithm for key in self._trusted.values()})

    def public_jwks(self) -> list[dict[str, str]]:
        """The public halves, for others who check tokens."""
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
        self._read = current
