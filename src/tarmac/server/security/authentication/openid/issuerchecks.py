"""Checks shared by all ways to configure an issuer: its URL and its certificate authorities."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from tarmac.server.security.tokens import secrettokens
from tarmac.server.security.tokens.serviceaccounts import ISSUER

OWN_ISSUERS: Final = (ISSUER, secrettokens.ISSUER)
_PLAIN = re.compile(r"[!-~]*", re.ASCII)


def url_mistakes(url: str) -> Iterator[str]:
    """Yield the errors in the URL of an issuer or of its discovery document."""
    if url in OWN_ISSUERS:
        yield f"{url} issues the tokens of service accounts; name another issuer"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        yield f"{url!r} is no URL: {error}"
        return
    if parts.scheme != "https":
        yield f"{url!r}: the scheme must be https"
    elif not parts.hostname or not _PLAIN.fullmatch(url):
        yield f"{url!r} is no URL with a host, of printable characters"
    if "@" in parts.netloc:
        yield f"{url!r}: there must be no user name or password in it"
    if parts.query or parts.fragment:
        yield f"{url!r}: there must be no query or fragment"


def authorities(pem: str) -> ssl.SSLContext:
    """Return a context that trusts these authorities, or the system's if there are none. Raises ValueError."""
    try:
        return ssl.create_default_context(cadata=pem or None)
    except ssl.SSLError as error:
        raise ValueError(f"the issuer's authority cannot be read: {error.reason or error}") from error
