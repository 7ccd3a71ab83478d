"""Keeps a running server's certificate from running out.

Every few minutes the certificate is looked at and, near its end, replaced, perhaps by another server that shares it.
New connections get the new one, and those that are open are not disturbed.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.server.security.pki import Pki

_OFTEN = 600.0  # a machine that slept, or whose clock was set, may find its certificate at an end
_log = log("pki")


async def keep_renewed(pki: Pki, names: Sequence[str], context: ssl.SSLContext, clock: Clock) -> None:
    """Run beside the listener that uses `context`; ends by cancellation."""
    current = b""
    while True:
        try:
            with pki.server_files(names) as (certificate, key):
                present = certificate.read_bytes()
                if present != current:
                    context.load_cert_chain(certificate, key)
                    if current:
                        _log.info("server certificate renewed", path=str(certificate))
                    current = present
        except (OSError, ValueError) as error:  # tried again soon, long before the old one ends
            _log.error("server certificate could not be renewed", error=str(error))
        await clock.sleep(_OFTEN)
