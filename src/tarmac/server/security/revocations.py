"""Certificates that are refused before their time: those of nodes that were removed and of people.

They stand in one ConfigMap (`api.nodetokens`). A certificate that was checked hangs on the version of it that was
looked at, like any other credential on what it rests on, so a change is in force with the next request on every server
that has read it. Connections that are open and ask for nothing, tunnels and watches, are looked through at a change.
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
from tarmac.server.security.certificates import BACKDATE
from tarmac.server.security.credentials import Holds
from tarmac.server.security.storechanges import at_each_change
from tarmac.store.interface import Entry, Store

_BUCKET, _NAME = "core/configmaps", f"{NAMESPACE}/{REVOKED_MAP}"
_log = log("security")


class Revocations:
    """What the ConfigMap says, read once for each version of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: Entry | None = None
        self._before: dict[str, float] = {}

    def checked(self, name: str, certificate: x509.Certificate) -> Holds:
        """On what the certificate's being good hangs. Raises Unauthorized."""
        if self._refuses(name, certificate):
            raise Unauthorized(f'the certificate of "{name}" was revoked')
        return ((_BUCKET, _NAME, self._read),)

    async def enforce(self, end: Callable[[Callable[[bytes], bool]], Awaitable[int]]) -> NoReturn:
        """Have connections ended whose certificate is refused, at each change, until cancelled.

        `end` is given the question to ask of each connection's certificate.
        """

        async def look() -> None:
            if ended := await end(self._refuses_encoded):
                _log.info("connections of revoked certificates were ended", count=ended)

        return await at_each_change(self._store, _BUCKET, _NAME, look)

    def _refuses_encoded(self, der: bytes) -> bool:
        with suppress(ValueError):  # it names nobody, so its requests are refused one by one
            subject, certificate = certificate_subject(der)
            return self._refuses(subject.common_name, certificate)
        return False

    def _refuses(self, name: str, certificate: x509.Certificate) -> bool:
        current = self._store.get(_BUCKET, _NAME)
        if current is not self._read:
            data = (decode(current).get("data") or {}) if current is not None else {}
            self._before = {key: refused_before(value) for key, value in data.items()}
            self._read = current
        if not self._before:
            return False
        issued = certificate.not_valid_before_utc + BACKDATE
        return issued.timestamp() < self._before.get(revocation_key(name), -inf)
