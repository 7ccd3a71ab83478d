"""Revoked certificates: those of removed nodes and of users.

They are listed in one ConfigMap (`api.nodetokens`). A cached check of a certificate depends on the ConfigMap's version,
so a change takes effect with the next request on every server that has read it. Open connections without requests
(tunnels and watches) are checked at each change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import NoReturn

from cryptography import x509

from tarmac.api.identities import NAMESPACE
from tarmac.api.nodetokens import REVOKED_MAP, refused_before, revocation_key
from tarmac.api.status import Unauthorized
from tarmac.base.log import log
from tarmac.http.subjects import certificate_subject
from tarmac.server.reader import decode
from tarmac.server.security.certificates.issuing import BACKDATE
from tarmac.server.security.credentials import Holds
from tarmac.server.security.keys.storechanges import at_each_change
from tarmac.store.interface import Entry, Store

_BUCKET, _NAME = "core/configmaps", f"{NAMESPACE}/{REVOKED_MAP}"
_log = log("security")


class Revocations:
    """The content of the ConfigMap, parsed once per version."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: Entry | None = None
        self._before: dict[str, float] = {}

    def checked(self, name: str, certificate: x509.Certificate) -> Holds:
        """Check a certificate and return the versions that the check depends on. Raises Unauthorized."""
        if self._refuses(name, certificate):
            raise Unauthorized(f'the certificate of "{name}" was revoked')
        return ((_BUCKET, _NAME, self._read),)

    async def enforce(self, end: Callable[[Callable[[bytes], bool]], Awaitable[int]]) -> NoReturn:
        """Close connections with revoked certificates at each change, until cancelled.

        `end` gets a predicate to apply to each connection's certificate.
        """

        async def look() -> None:
            if ended := await end(self._refuses_encoded):
                _log.info("connections with revoked certificates closed", count=ended)

        return await at_each_change(self._store, _BUCKET, _NAME, look)

    def _refuses_encoded(self, der: bytes) -> bool:
        with suppress(ValueError):  # without a valid user name, its requests are rejected one by one
            subject, certificate = certificate_subject(der)
            return self._refuses(subject.common_name, certificate)
        return False

    def _refuses(self, name: str, certificate: x509.Certificate) -> bool:
        return self.refuses(name, certificate.not_valid_before_utc.timestamp())

    def refuses(self, name: str, not_before: float) -> bool:
        """Return True if a user's certificate is revoked, by the Unix time since when it is valid."""
        current = self._store.get(_BUCKET, _NAME)
        if current is not self._read:
            data = (decode(current).get("data") or {}) if current is not None else {}
            self._before = {key: refused_before(value) for key, value in data.items()}
            self._read = current
        if not self._before:
            return False
        issued = not_before + BACKDATE.total_seconds()
        return issued < self._before.get(revocation_key(name), -inf)
