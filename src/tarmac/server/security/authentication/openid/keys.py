"""Public keys of an issuer: a JSON Web Key Set, parsed with limits and refreshed on demand.

Keys are fetched at the server's start, and again if no known key verifies a token: the issuer may have rotated its
keys. There is one fetch at a time and at most one in ten seconds, regardless of the number of requests; requests that
arrive during a fetch wait for the same one. A failed fetch leaves the keys unchanged.
"""

from __future__ import annotations

import asyncio
import binascii
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tarmac.base.clock import Clock
from tarmac.base.tasks import Tasks
from tarmac.server.security.tokens.jwt import Unverified, unbase64url
from tarmac.server.security.tokens.signatures import PublicKey, check_signature

MIN_FETCH_INTERVAL = 10.0  # minimum seconds between the starts of two fetches
_MAX_KEYS = 100
_RSA_BITS = range(1024, 8192 + 1)  # verifying with a larger key would block the event loop
_MAX_EXPONENT = 2**32
_CURVES: dict[str, type[ec.EllipticCurve]] = {"P-256": ec.SECP256R1, "P-384": ec.SECP384R1, "P-521": ec.SECP521R1}


class BadDocument(Exception):
    """An unusable answer of the issuer; the text has the reason."""


class NamedKey(NamedTuple):
    """A public key and its key id."""

    id: str
    key: PublicKey


class RemoteKeys:
    """The keys of one issuer. `fetch` has its own timeouts and never raises; it returns None on failure."""

    def __init__(self, fetch: Callable[[], Awaitable[tuple[NamedKey, ...] | None]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: tuple[NamedKey, ...] = ()
        self._began = -inf
        self._fetching: asyncio.Task[None] | None = None
        self._tasks = Tasks()

    def verify(self, token: Unverified) -> bool:
        """Return True if a known key made the token's signature."""
        name, algorithm = token.header.get("kid", ""), token.header["alg"]
        for key in self._keys:
            # A token without a key id is tried with every key; `_MAX_KEYS` bounds that work per token.
            if name in ("", key.id):
                try:
                    check_signature(key.key, algorithm, token.signed, token.signature)
                except (InvalidSignature, UnsupportedAlgorithm, ValueError):
                    continue
                return True
        return False

    @property
    def may_change(self) -> bool:
        """True if waiting for `refresh` could bring new keys."""
        return self._fetching is not None or self._clock.monotonic() - self._began >= MIN_FETCH_INTERVAL

    def begin(self) -> asyncio.Task[None]:
        """Return the fetch in progress, or start one."""
        if self._fetching is None:
            self._began = self._clock.monotonic()
            self._fetching = self._tasks.begin(self._replace(), "keys of an issuer")
        return self._fetching

    async def refresh(self) -> None:
        """Wait for a fetch."""
        # A waiter is cancelled if its client disconnects; `asyncio.wait` does not cancel the shared fetch then.
        await asyncio.wait({self.begin()})

    async def close(self) -> None:
        """Cancel a fetch in progress."""
        await self._tasks.close()

    async def _replace(self) -> None:
        try:
            found = await self._fetch()
        finally:
            self._fetching = None
        if found is not None:
            self._keys = found


def read_keys(document: bytes) -> tuple[NamedKey, ...]:
    """Return the keys of a set that can verify signatures, skipping all other kinds. Raises BadDocument."""
    try:
        found = msgspec.json.decode(document, type=dict[str, Any]).get("keys")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadDocument(f"the key set is no JSON object: {error}") from error
    if not isinstance(found, list):
        raise BadDocument('the key set has no list "keys"')
    if len(found) > _MAX_KEYS:
        raise BadDocument(f"the key set has {len(found)} keys; {_MAX_KEYS} are allowed")
    read = [_read_key(each) for each in found if isinstance(each, dict)]
    return tuple(key for key in read if key is not None)


def _read_key(jwk: dict[str, Any]) -> NamedKey | None:
    name = jwk.get("kid", "")
    if jwk.get("use", "sig") != "sig" or not isinstance(name, str):
        return None
    try:
        key = _rsa(jwk) if jwk.get("kty") == "RSA" else _elliptic(jwk) if jwk.get("kty") == "EC" else None
    except (KeyError, TypeError, ValueError, binascii.Error, UnsupportedAlgorithm):
        return None  # an invalid key does not invalidate the rest of the set
    return None if key is None else NamedKey(name, key)


def _rsa(jwk: dict[str, Any]) -> rsa.RSAPublicKey | None:
    modulus, exponent = _number(jwk["n"]), _number(jwk["e"])
    # The issuer's document is not trusted with the event loop's time: verifying grows with the square of these sizes.
    if modulus.bit_length() not in _RSA_BITS or exponent >= _MAX_EXPONENT:
        return None
    return rsa.RSAPublicNumbers(exponent, modulus).public_key()


def _elliptic(jwk: dict[str, Any]) -> ec.EllipticCurvePublicKey:
    curve = _CURVES[jwk["crv"]]()
    return ec.EllipticCurvePublicNumbers(_number(jwk["x"]), _number(jwk["y"]), curve).public_key()


def _number(text: str) -> int:
    return int.from_bytes(unbase64url(text), "big")
