"""Fetches an issuer's keys through its discovery document.

Both documents are fetched over verified HTTPS, without redirects and within ten seconds in total, so a slow or endless
response is aborted. Errors are logged, and the known keys stay in use.
"""

from __future__ import annotations

import asyncio
import re
import ssl
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
        text = await self._get(self._discovery_url)
        try:
            found = msgspec.json.decode(text, type=DiscoveryDocument)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadDocument(f"{self._discovery_url} is no discovery document: {error}") from error
        # Exactly equal, as OpenID Connect Discovery 1.0 demands (section 4.3): the keys of another issuer must not
        # count.
        if found.issuer != self._issuer:
            raise BadDocument(f'{self._discovery_url} is of the issuer "{found.issuer}"')
        # The issuer chooses this URL: `_get` takes https only, so it cannot make the server speak HTTP to services of
        # the host.
        return read_keys(await self._get(found.jwks_uri))

    async def _get(self, url: str) -> bytes:
        if not _URL.fullmatch(url):
            raise BadDocument(f"{url!r} is no https URL")
        parts = urlsplit(url)
        if not parts.hostname or "@" in parts.netloc:
            raise BadDocument(f"{url!r} names no host, or a user")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = [("Accept", "application/json"), ("User-Agent", "tarmac"), ("Connection", "close")]
        head = request_head("GET", target, parts.netloc, headers)
        reply = await send_request(tcp(parts.hostname, parts.port or 443, self._context), head, FETCH_TIMEOUT)
        if reply.status != 200:
            reply.close()
            raise BadDocument(f"{url} answered {reply.status}")
        return await reply.read(_MAX_DOCUMENT)
