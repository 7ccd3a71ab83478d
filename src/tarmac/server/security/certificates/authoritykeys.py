"""The trusted certificate authorities, and the files derived from them.

Every server follows the record (`keyrecords`). TLS verifies a client certificate against the files present when the
connection began. Here it is verified against the record, and cached checks depend on the record's version. So a retired
authority's certificates are rejected with the next request, and open connections are checked at each change. Once there
is a record, a trusted authority must have signed a certificate directly: the certificates that an intermediate
authority may have issued are unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NoReturn

from cryptography import x509

from tarmac.api.status import Unauthorized
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.http.bundles import authority_id, certificates_in
from tarmac.server.security.certificates.issuing import issued_by, load_certificate
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.credentials import Holds
from tarmac.server.security.keys.keyrecords import (
    AUTHORITIES,
    BUCKET,
    KeptKey,
    KeyRecord,
    decode_record,
    first_record,
)
from tarmac.server.security.keys.storechanges import at_each_change
from tarmac.store.interface import Entry, Store

_DRAIN_SECONDS = 1.0
_log = log("security")


def authority_record(pki: Pki, now: float) -> KeyRecord:
    """Return the record of a cluster that uses the authority of its directory."""
    certificate = certificates_in(pki.authority.pem.decode())[0]
    kept = KeptKey(pki.ca_key_file.read_text(), certificate=certificate)
    return first_record(AUTHORITIES, authority_id(certificate), kept, now)


def follow_authorities(pki: Pki, record: KeyRecord) -> bool:
    """Write the record's authorities to the files. Return True if they changed."""
    signing = record.keys[record.signing]
    others = [kept.certificate for key, kept in record.keys.items() if key != record.signing]
    chain = signing.cross if others else ""  # without other authorities, no peer needs the cross-signed certificate
    return pki.trust([signing.certificate, *others], signing.pem, chain)


class TrustedAuthorities:
    """The record's authorities, parsed once per version. `noted` is called with users of old authorities."""

    def __init__(self, store: Store, clock: Clock, noted: Callable[[str], None]) -> None:
        self._store = store
        self._clock = clock
        self._noted = noted
        self._read: Entry | None = None
        self._known: list[x509.Certificate] = []

    def checked(self, name: str, certificate: x509.Certificate) -> tuple[Holds, bool]:
        """Check a certificate. Return the versions it depends on, and True if its authority is to be retired.

        Raises Unauthorized.
        """
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
        """Close connections with certificates of untrusted authorities at each change, until cancelled."""

        async def look() -> None:
            # The client that requested the change may use such a certificate itself: let its response out first.
            # Requests are rejected immediately, on any connection.
            await self._clock.sleep(_DRAIN_SECONDS)
            if ended := await end(self._refuses):
                _log.info("connections with certificates of a retired authority closed", count=ended)

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
