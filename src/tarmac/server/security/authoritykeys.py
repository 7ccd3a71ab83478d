"""The authorities behind certificates: whose certificates are taken, and the files that say so.

Every server goes by the record (`keyrecords`). TLS has checked a certificate against the files of the moment when the
connection began; here it is held against the record, on which the check hangs, so an authority that is retired ends
its certificates with the next request, and connections that are open are looked through. A certificate has to be
signed by a trusted authority itself once there is a record: what an authority in between could vouch for, nobody knows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NoReturn

from cryptography import x509

from tarmac.api.status import Unauthorized
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.http.bundles import authority_id, certificates_in
from tarmac.server.security.certificates import issued_by, load_certificate
from tarmac.server.security.credentials import Holds
from tarmac.server.security.keyrecords import (
    AUTHORITIES,
    BUCKET,
    KeptKey,
    KeyRecord,
    decode_record,
    first_record,
)
from tarmac.server.security.pki import Pki
from tarmac.server.security.storechanges import at_each_change
from tarmac.store.interface import Entry, Store

_LAST_ANSWERS = 1.0
_log = log("security")


def authority_record(pki: Pki, now: float) -> KeyRecord:
    """The record of a cluster that goes by the authority of its directory."""
    certificate = certificates_in(pki.authority.pem.decode())[0]
    kept = KeptKey(pki.ca_key_file.read_text(), certificate=certificate)
    return first_record(AUTHORITIES, authority_id(certificate), kept, now)


def follow_authorities(pki: Pki, record: KeyRecord) -> bool:
    """Have the files as the record says. Whether they were different."""
    signing = record.keys[record.signing]
    others = [kept.certificate for key, kept in record.keys.items() if key != record.signing]
    chain = signing.cross if others else ""  # with nobody left who trusts the old one alone, it proves nothing
    return pki.trust([signing.certificate, *others], signing.pem, chain)


class TrustedAuthorities:
    """What the record says, read once for each version of it. `noted` hears of users of authorities that will go."""

    def __init__(self, store: Store, clock: Clock, noted: Callable[[str], None]) -> None:
        self._store = store
        self._clock = clock
        self._noted = noted
        self._read: Entry | None = None
        self._known: list[x509.Certificate] = []

    def checked(self, name: str, certificate: x509.Certificate) -> tuple[Holds, bool]:
        """On what the certificate's being good hangs, and whether its authority is to go. Raises Unauthorized."""
        self._refresh()
        hold = (BUCKET, AUTHORITIES, self._read)
        if not self._known:
            return (hold,), False
        if not self._trusts(certificate):
            raise Unauthorized(f'the certificate of "{name}" is of an authority that was retired')
        old = not issued_by(certificate, self._known[-1])
        if old:
            self._noted(name)
        return (hold,), old

    async def enforce(self, end: Callable[[Callable[[bytes], bool]], Awaitable[int]]) -> NoReturn:
        """Have connections ended whose certificate is of no trusted authority, at each change, until cancelled."""

        async def look() -> None:
            # Whoever asked for it may have come with such a certificate, and is to be answered. Requests are refused
            # at once, whatever connection they come on.
            await self._clock.sleep(_LAST_ANSWERS)
            if ended := await end(self._refuses):
                _log.info("connections with certificates of a retired authority were ended", count=ended)

        return await at_each_change(self._store, BUCKET, AUTHORITIES, look)

    def _refuses(self, der: bytes) -> bool:
        self._refresh()
        return bool(self._known) and not self._trusts(x509.load_der_x509_certificate(der))

    def _trusts(self, certificate: x509.Certificate) -> bool:
        return any(issued_by(certificate, each) for each in reversed(self._known))

    def _refresh(self) -> None:
        current = self._store.get(BUCKET, AUTHORITIES)
        if current is self._read:
            return
        kept = decode_record(current.raw).keys.values() if current is not None else ()
        self._known = [load_certificate(each.certificate.encode()) for each in kept]
        self._read = current
