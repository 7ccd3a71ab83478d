"""Verifies tokens of OpenID Connect issuers and maps them to users.

A token is checked against the one issuer that it names, cheapest checks first: times and audience, algorithm, then
signature. If no known key made the signature, the issuer may have a new key: `KeysNeeded` is raised, and the caller may
wait for the keys and retry. Other requests do not wait. Verified tokens are cached until they expire, as long as the
issuer's configuration does not change.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tarmac.base.clock import Clock
from tarmac.server.security.authentication.openid.fetching import KeySource
from tarmac.server.security.authentication.openid.keys import RemoteKeys
from tarmac.server.security.authentication.openid.mapping import Claims, Mapping
from tarmac.server.security.credentials import Credential, CredentialCache
from tarmac.server.security.tokens.jwt import InvalidToken, Unverified
from tarmac.server.security.tokens.signatures import ALGORITHMS
from tarmac.server.security.users import User
from tarmac.store.interface import Store

_LEEWAY = 60.0  # clock skew for `nbf`; expiry has no leeway
_GOOGLE = "https://accounts.google.com"
_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?", re.ASCII)


class KeysNeeded(Exception):
    """Raised if no known key made the signature and the issuer may have new keys."""

    def __init__(self, keys: RemoteKeys) -> None:
        super().__init__()
        self.keys = keys


@dataclass(frozen=True)
class IssuerSettings:
    """The configuration of one issuer."""

    url: str
    audiences: frozenset[str]
    mapping: Mapping = field(compare=False)
    context: ssl.SSLContext = field(compare=False)
    algorithms: frozenset[str] = frozenset(ALGORITHMS)
    discovery_url: str = ""
    client_id: str = ""
    """The client as which the dashboard signs users in; one of `audiences`."""
    client_secret: str = field(default="", repr=False)
    source: str = ""
    """The full configuration as text.

    Settings with equal text are equal, and then the issuer's keys and cache are kept.
    """


class Issuer:
    """A configured issuer with its keys and token cache."""

    def __init__(self, settings: IssuerSettings, store: Store, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._source = KeySource(settings.url, settings.discovery_url, settings.context)
        self.keys = RemoteKeys(self._source.fetch, clock)
        self.known = CredentialCache(store, clock)

    @property
    def document(self) -> bytes:
        """The issuer's discovery document; empty until it was fetched."""
        return self._source.document

    def recognise(self, token: Unverified) -> Credential:
        """Return the credential of a token of this issuer. Raises InvalidToken, KeysNeeded."""
        expires = self._check_claims(token.claims)
        algorithm = token.header.get("alg")
        # A header with `crit` asks for extensions that this server does not know, so it is rejected (RFC 7515, section
        # 4.1.11).
        if not isinstance(algorithm, str) or algorithm not in self.settings.algorithms or "crit" in token.header:
            wanted = " ".join(sorted(self.settings.algorithms))
            raise InvalidToken(
                f'oidc: id token signed with unsupported algorithm, expected [{wanted}] got "{algorithm}"'
            )
        if not self.keys.verify(token):
            # Forged tokens get here too: `RemoteKeys` begins at most one fetch in ten seconds, however many clients
            # send them.
            if self.keys.may_change:
                raise KeysNeeded(self.keys)
            raise InvalidToken("oidc: failed to verify id token signature")
        return Credential(self.settings.mapping.user(token.claims), expires)

    def _check_claims(self, claims: Claims) -> float:
        """Check the claims and return the expiry. Raises InvalidToken."""
        for name in ("sub", "nonce", "at_hash"):
            if not isinstance(claims.get(name, ""), str | None):
                raise InvalidToken(f"oidc: failed to unmarshal claims: {name} is no text")
        given = claims.get("aud")
        audiences: list[Any] = given if isinstance(given, list) else [given]
        if not all(isinstance(each, str) for each in audiences):
            raise InvalidToken("oidc: failed to unmarshal claims: aud is neither a text nor a list of texts")
        if self.settings.audiences.isdisjoint(audiences):
            raise InvalidToken(f"oidc: expected audience in {sorted(self.settings.audiences)} got {audiences}")
        return self._check_times(claims)

    def _check_times(self, claims: Claims) -> float:
        now, expires = self._clock.now(), _moment(claims, "exp")
        if expires < now:
            raise InvalidToken("oidc: token is expired")
        if claims.get("nbf") is not None and _moment(claims, "nbf") > now + _LEEWAY:
            raise InvalidToken("oidc: current time is before the nbf (not before) time")
        _moment({"iat": 0, **claims}, "iat")
        return expires


class Issuers:
    """The configured issuers by URL."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._issuers: dict[str, Issuer] = {}

    @property
    def none(self) -> bool:
        """True if no issuer is configured."""
        return not self._issuers

    async def use(self, settings: Iterable[IssuerSettings]) -> None:
        """Replace the configured issuers. One with unchanged settings keeps its keys and cache."""
        before, self._issuers = self._issuers, {}
        for each in settings:
            kept = before.get(each.url)
            if kept is not None and kept.settings == each:
                self._issuers[each.url] = before.pop(each.url)
                continue
            self._issuers[each.url] = made = Issuer(each, self._store, self._clock)
            made.keys.begin()
        # After the table is complete: a cancellation here leaves fetches running, and the new configuration in force.
        for issuer in before.values():
            await issuer.keys.close()

    async def close(self) -> None:
        """Remove all issuers and cancel their fetches."""
        await self.use(())

    def __iter__(self) -> Iterator[Issuer]:
        return iter(tuple(self._issuers.values()))

    def named(self, url: str) -> Issuer | None:
        """Return the configured issuer with this URL, or None."""
        return self._issuers.get(url)

    def known(self, token: str) -> User | None:
        """Return the user of a cached token that is still valid, or None."""
        for issuer in self._issuers.values():
            user = issuer.known.get(token)
            if user is not None:
                return user
        return None

    def of(self, claims: Claims) -> Issuer | None:
        """Return the configured issuer that a token names, or None."""
        name = claims.get("iss")
        if not isinstance(name, str):
            return None
        # Google's tokens may name it without the scheme.
        return self._issuers.get(_GOOGLE if name == _GOOGLE.removeprefix("https://") else name)


def _moment(claims: Claims, name: str) -> float:
    """Return a claim as Unix seconds. A missing one is 0; a number in a string is accepted, as in kube-apiserver."""
    found = claims.get(name, 0)
    if isinstance(found, str) and _NUMBER.fullmatch(found):
        return float(found)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise InvalidToken(f"oidc: failed to unmarshal claims: {name} is no time")
    return float(max(0, min(found, 2**62)))
