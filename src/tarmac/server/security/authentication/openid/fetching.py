"""Sends requests to an issuer, and fetches its keys through its discovery document.

Every request uses verified HTTPS, without redirects and within ten seconds in total, so a slow or endless response is
aborted. Errors of a fetch are logged, and the known keys stay in use.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from tarmac.base.log import log
from tarmac.http.clientrequest import request_head, send_request, tcp
from tarmac.http.responseprotocol import ConnectionBroken
from tarmac.server.security.authentication.openid.keys import BadDocument, NamedKey, read_keys

DISCOVERY_PATH = "/.well-known/openid-configuration"
FETCH_TIMEOUT = 10.0
_MAX_DOCUMENT = 1024 * 1024
_URL = re.compile(r"https://[!-~]+", re.ASCII)  # excludes characters that would end the request's target or line
_log = log("openid")


class DiscoveryDocument(msgspec.Struct):
    """The fields of the discovery document that are used."""

    issuer: str
    jwks_uri: str


class KeySource:
    """The source of one issuer's keys."""

    def __init__(self, issuer: str, discovery_url: str, context: ssl.SSLContext) -> None:
        self._issuer = issuer
        self._discovery_url = discovery_url or issuer.removesuffix("/") + DISCOVERY_PATH
        self._context = context
        self.document = b""
        """The discovery document of the last fetch that succeeded; its issuer was compared."""

    async def fetch(self) -> tuple[NamedKey, ...] | None:
        """Return the current keys, or None if the issuer does not answer with a valid key set."""
        try:
            async with asyncio.timeout(FETCH_TIMEOUT):
                return await self._keys()
        except TimeoutError:
            why = f"no answer in {FETCH_TIMEOUT:g} seconds"
        except (OSError, ConnectionBroken, BadDocument, ValueError) as error:
            why = str(error)
        _log.warning("issuer keys cannot be fetched", issuer=self._issuer, error=why)
        return None

    async def _keys(self) -> tuple[NamedKey, ...]:
        text = await _get(self._discovery_url, self._context)
        try:
            found = msgspec.json.decode(text, type=DiscoveryDocument)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadDocument(f"{self._discovery_url} is no discovery document: {error}") from error
        # Exactly equal, as OpenID Connect Discovery 1.0 demands (section 4.3): the keys of another issuer must not
        # count.
        if found.issuer != self._issuer:
            raise BadDocument(f'{self._discovery_url} is of the issuer "{found.issuer}"')
        keys = read_keys(await _get(found.jwks_uri, self._context))
        self.document = text
        return keys


async def _get(url: str, context: ssl.SSLContext) -> bytes:
    status, body = await send_to_issuer("GET", url, context)
    if status != 200:
        raise BadDocument(f"{url} answered {status}")
    return body


async def send_to_issuer(
    method: str, url: str, context: ssl.SSLContext, headers: Sequence[tuple[str, str]] = (), body: bytes = b""
) -> tuple[int, bytes]:
    """Send one request and return the status and the body.

    The issuer chooses most of these URLs: only `https` is accepted, so that it cannot make the server speak HTTP to
    services of the host. Raises BadDocument, OSError, ConnectionBroken.
    """
    if not is_https(url):
        raise BadDocument(f"{url!r} is no https URL with a host and without a user")
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    usual = [("Accept", "application/json"), ("User-Agent", "tarmac"), ("Connection", "close")]
    head = request_head(method, target, parts.netloc, [*usual, *headers])
    reply = await send_request(tcp(parts.hostname or "", parts.port or 443, context), head + body, FETCH_TIMEOUT)
    return reply.status, await reply.read(_MAX_DOCUMENT)


def is_https(url: str) -> bool:
    """Return True for an absolute https URL of printable characters, with a host and without a user."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return _URL.fullmatch(url) is not None and bool(parts.hostname) and "@" not in parts.netloc
