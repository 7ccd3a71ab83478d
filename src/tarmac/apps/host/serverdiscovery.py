"""Verifies a server by a token's CA hash, before any secret is sent.

The CA certificate is fetched without verification and without credentials, and accepted only if it has the hash. Then a
new connection is made that trusts only this certificate and verifies the server's name. Only such a connection ever
carries the token, so a man in the middle, without a certificate of that CA, sees no secret.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime

import msgspec

from tarmac.api.nodetokens import AUTHORITIES_PATH, NodeToken
from tarmac.apps.host.hostlayout import SetupFailed
from tarmac.base.clock import Clock
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.transport import ClientRequest, Reply
from tarmac.http.authorities import key_hashes, pinned

DEFAULT_PORT = 6443
_TIMEOUT = 10.0


class WrongAuthority(SetupFailed):
    """A different CA answers at this address."""


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A server verified by the token's hash."""

    url: str
    ca: str
    ahead: float  # seconds by which this host's clock is ahead of the server's
    version: str  # of Tarmac; empty if unknown
    others: tuple[str, ...] = ()  # the remaining URLs, not checked


async def discover(addresses: list[str], token: NodeToken, clock: Clock) -> FoundServer:
    """Return the first address with the token's server. Raises SetupFailed; a wrong CA ends the search."""
    trouble: list[str] = []
    for address in addresses:
        try:
            found = await _at(url_of(address), token, clock)
            return replace(found, others=tuple(url for each in addresses if (url := url_of(each)) != found.url))
        except (ClientError, OSError) as error:
            trouble.append(f"{address} does not answer: {error}")
    raise SetupFailed("; ".join(trouble))


def url_of(address: str) -> str:
    """Convert `host`, `host:port` or `[v6]:port` to a URL."""
    bare = address.removeprefix("https://").rstrip("/")
    if bare.count(":") > 1 and not bare.startswith("["):
        bare = f"[{bare}]"
    has_port = bare.rpartition("]")[2].count(":") == 1
    return f"https://{bare}" if has_port else f"https://{bare}:{DEFAULT_PORT}"


async def _at(url: str, token: NodeToken, clock: Clock) -> FoundServer:
    shown = await _get(HttpConfig(url, insecure=True), AUTHORITIES_PATH, clock)
    try:
        ca, hashes = pinned(shown.body, token.ca_hash), key_hashes(shown.body)
    except ValueError:
        ca, hashes = None, []
    if ca is None:
        has = f"has CA sha256:{hashes[0]}" if hashes else f"shows no authority at {AUTHORITIES_PATH}"
        raise WrongAuthority(
            f"the server at {url} {has}, the token names sha256:{token.ca_hash}: nothing was sent to it"
        )
    verified = await _get(HttpConfig(url, ca=ca), "/version", clock)
    return FoundServer(url, ca, _ahead(verified, clock), _version(verified))


async def _get(config: HttpConfig, path: str, clock: Clock) -> Reply:
    transport = HttpTransport(config, clock)
    try:
        return await transport.request(ClientRequest("GET", path, "", {"accept": "*/*"}, b"", _TIMEOUT))
    finally:
        await transport.close()


def _ahead(reply: Reply, clock: Clock) -> float:
    try:
        return clock.now() - parsedate_to_datetime(reply.headers.get("date", "")).timestamp()
    except ValueError:
        return 0.0


def _version(reply: Reply) -> str:
    """Extract `0.2.0` from `v1.35.8+tarmac-0.2.0`."""
    try:
        text = msgspec.json.decode(reply.body)["gitVersion"]
    except (msgspec.DecodeError, UnicodeError, KeyError, TypeError):
        return ""
    return str(text).partition("+tarmac-")[2]
