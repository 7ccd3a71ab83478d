"""Keeps a running server's certificate and trusted client authorities in step with the files.

Every two seconds it checks if files were replaced, perhaps by a different server that shares them; every few minutes it
checks the certificate's validity and replaces it before it expires. New connections use the new files; open ones are
not disturbed.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import NoReturn

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.http.bundles import authority_id, certificates_in
from tarmac.http.tls import server_context
from tarmac.server.security.certificates.pki import Pki

POLL_INTERVAL = 2.0
_RENEWAL_INTERVAL = 600.0  # after a suspend or a clock change, the certificate may suddenly be near its end
_log = log("pki")


class ServerTls:
    """The TLS context of a listener."""

    def __init__(self, pki: Pki, names: Sequence[str], clock: Clock) -> None:
        self._pki = pki
        self._names = names
        self._clock = clock
        self._current: tuple[bytes, bytes] = (b"", b"")
        self._stamp: tuple[object, ...] = ()
        self._looked = -_RENEWAL_INTERVAL
        self.trusted: tuple[str, ...] = ()  # ids of the trusted client authorities

    def renewed(self) -> ssl.SSLContext | None:
        """Return a new context if the files have changed, else None. Raises OSError, ValueError."""
        now = self._clock.monotonic()
        if self._pki.stamp() == self._stamp and now - self._looked < _RENEWAL_INTERVAL:
            return None
        # Locked until both are loaded: another server could replace the certificate between reading it and its key.
        with self._pki.server_files(self._names) as (certificate, key):
            # Read again, since `server_files` may have renewed the certificate just now.
            self._stamp, self._looked = self._pki.stamp(), now
            present = certificate.read_bytes(), self._pki.ca_file.read_bytes()
            if present == self._current:
                return None
            context = server_context(certificate, key, self._pki.ca_file)
        # Only after the context was made: files that cannot be loaded are tried again.
        self._current = present
        self.trusted = tuple(authority_id(each) for each in certificates_in(present[1].decode()))
        return context

    async def keep(self, use: Callable[[ssl.SSLContext], None]) -> NoReturn:
        """Call `use` with each new context, until cancelled."""
        while True:
            await self._clock.sleep(POLL_INTERVAL)
            self.refresh(use)

    def refresh(self, use: Callable[[ssl.SSLContext], None]) -> None:
        """Check now, and call `use` if there is a new context."""
        try:
            context = self.renewed()
        except (
            OSError,
            ValueError,
        ) as error:  # retried after POLL_INTERVAL seconds, long before the old certificate expires
            _log.error("server certificate could not be renewed", error=str(error))
            return
        if context is not None:
            use(context)
            _log.info("server certificate or trusted authorities renewed", path=str(self._pki.server_file))
