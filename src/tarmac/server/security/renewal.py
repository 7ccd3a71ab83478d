"""A running server's certificate, and whose certificates it takes from clients, as the files say at the moment.

Every other second somebody looks whether files were replaced, perhaps by another server that shares them; every few
minutes the certificate is looked at and, near its end, replaced. New connections get what is new, and those that are
open are not disturbed.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import NoReturn

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.http.bundles import authority_id, certificates_in
from tarmac.http.tls import server_context
from tarmac.server.security.pki import Pki

LOOK = 2.0
_OFTEN = 600.0  # a machine that slept, or whose clock was set, may find its certificate at an end
_log = log("pki")


class ServerTls:
    """What a listener greets clients with."""

    def __init__(self, pki: Pki, names: Sequence[str], clock: Clock) -> None:
        self._pki = pki
        self._names = names
        self._clock = clock
        self._current: tuple[bytes, bytes] = (b"", b"")
        self._stamp: tuple[object, ...] = ()
        self._looked = -_OFTEN
        self.trusted: tuple[str, ...] = ()  # ids of the authorities whose certificates are taken

    def renewed(self) -> ssl.SSLContext | None:
        """A context for what the files say now; None when nothing is new. Raises OSError, ValueError."""
        now = self._clock.monotonic()
        if self._pki.stamp() == self._stamp and now - self._looked < _OFTEN:
            return None
        with self._pki.server_files(self._names) as (certificate, key):
            self._stamp, self._looked = self._pki.stamp(), now
            present = certificate.read_bytes(), self._pki.ca_file.read_bytes()
            if present == self._current:
                return None
            context = server_context(certificate, key, self._pki.ca_file)
        self._current = present
        self.trusted = tuple(authority_id(each) for each in certificates_in(present[1].decode()))
        return context

    async def keep(self, use: Callable[[ssl.SSLContext], None]) -> NoReturn:
        """Have `use` called with each new context, until cancelled."""
        while True:
            await self._clock.sleep(LOOK)
            self.refresh(use)

    def refresh(self, use: Callable[[ssl.SSLContext], None]) -> None:
        """Look now, and have `use` called if there is a new context."""
        try:
            context = self.renewed()
        except (OSError, ValueError) as error:  # tried again soon, long before the old one ends
            _log.error("server certificate could not be renewed", error=str(error))
            return
        if context is not None:
            use(context)
            _log.info("server certificate or trusted authorities renewed", path=str(self._pki.server_file))
