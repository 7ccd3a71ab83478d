"""Rotation of the key that signs service-account tokens. Retiring a key invalidates its tokens immediately."""

from __future__ import annotations

import base64

from tarmac.base.clock import rfc3339
from tarmac.base.duration import human_duration
from tarmac.server.reader import decode
from tarmac.server.security.certificates.issuing import new_key, private_pem
from tarmac.server.security.keys.keyrecords import TOKENS, KeptKey, KeyRecord, first_record, with_new_key
from tarmac.server.security.keys.rotation import KeyRotation, named
from tarmac.server.security.keys.trusting import paged, silent_servers
from tarmac.server.security.tokens.jwt import InvalidToken, SigningKey, parse
from tarmac.store.interface import Entry

_HOUR = 3600.0  # lifetime of pods' tokens, which are renewed earlier
_SECRETS = "core/secrets"
_TYPE = "kubernetes.io/service-account-token"


def token_record(pem: bytes, now: float) -> KeyRecord:
    """Return the record of a cluster that uses the key of its directory."""
    return first_record(TOKENS, SigningKey(pem).id, KeptKey(pem.decode()), now)


class TokenRotation(KeyRotation):
    """The token-key rotation of one cluster."""

    kind = TOKENS

    def with_new_key(self, record: KeyRecord) -> KeyRecord:
        """Return the record with a newly generated key."""
        pem = private_pem(new_key())
        return with_new_key(record, SigningKey(pem).id, KeptKey(pem.decode(), rfc3339(self.clock.now())))

    async def silent(self, record: KeyRecord, *, force: bool) -> list[str]:
        """List the servers that would reject tokens of the new key."""
        return await silent_servers(self.store, self.clock, record.newest)

    async def obstacles(self) -> list[str]:
        """List tokens of the old key that are still in use."""
        record = self.record
        if record.settled:
            return []
        if not record.switched:
            return ["the new key does not sign yet: not every server trusts it so far"]
        found: list[str] = []
        if (left := _HOUR - (self.clock.now() - record.changed)) > 0:
            found.append(f"tokens of pods that the old key signed expire in {human_duration(left)}")
        entries = paged(self.store, _SECRETS, self.clock)
        if old := [each.name async for each in entries if _key_of(each) not in (None, record.signing)]:
            found.append(f"Secrets hold tokens of the old key: {named(old)}")
        return found


def _key_of(entry: Entry) -> str | None:
    """Return the id of the key that signed the token in a Secret, or None without a token."""
    secret = decode(entry)
    if secret.get("type") != _TYPE:
        return None
    try:
        token = base64.b64decode((secret.get("data") or {}).get("token", "")).decode()
        return str(parse(token).header.get("kid"))
    except (ValueError, InvalidToken):
        return None
