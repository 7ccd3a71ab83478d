"""Getting an issuer's keys: its discovery document says where they are.

Both documents come over HTTPS, verified, without following redirects, and both together in ten seconds: an issuer that
sends byte after byte, or without end, is given up. What went wrong is logged and the keys that are known stay.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from urllib.parse import urlsplit

import msgspec

from tarmac.base.log import log
from tarmac.http.clientrequest import ConnectionBroken, ask, request_head, tcp
from tarmac.server.security.openid.keys import BadDocument, NamedKey, read_keys

DISCOVERY_PATH = "/.well-known/openid-configuration"
PATIENCE = 10.0
_LARGEST = 1024 * 1024
_URL = re.compile(r"https://[!-~]+", re.ASCII)  # nothing that would end a line of the request, or its target
_log = log("openid")


class Discovery(msgspec.Struct):
    """What of the document matters here."""

    issuer: str
    jwks_uri: str


class KeySource:
    """Where the keys of one issuer come from."""

    def __init__(self, issuer: str, discovery_url: str, context: ssl.SSLContext) -> None:
        self._issuer = issuer
        self._discovery_url = discovery_url or issuer.removesuffix("/") + DISCOVERY_PATH
        self._context = context

    async def fetch(self) -> tuple[NamedKey, ...] | None:
        """The keys as they are now; None when the issuer does not answer, or not with keys."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._keys()
        except TimeoutError:
            why = f"no answer in {PATIENCE:g} seconds"
        except (OSError, ConnectionBroken, BadDocument, ValueError) as error:
            why = str(error)
        _log.warning("keys of the issuer could not be fetched", issuer=self._issuer, error=why)
        return None

    async def _keys(self) -> tuple[NamedKey, ...]:
        text = await self._get(self._discovery_url)
        try:
            found = msgspec.json.decode(text, type=Discovery)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadDocument(f"{self._discovery_url} is no discovery document: {error}") from error
        if found.issuer != self._issuer:
            raise BadDocument(f'{self._discovery_url} is of the issuer "{found.issuer}"')
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
        reply = await ask(tcp(parts.hostname, parts.port or 443, self._context), head, PATIENCE)
        if reply.status != 200:
            reply.close()
            raise BadDocument(f"{url} answered {reply.status}")
        return await reply.read(_LARGEST)
