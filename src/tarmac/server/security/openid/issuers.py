"""Tokens of OpenID Connect issuers: whose they are, whether they are good, and whom they speak for.

A token is asked about at the one issuer that it names. What it says of itself is checked first, in an order that costs
least: its times and audience, its algorithm, then its signature. When no key that is known made the signature, the
issuer may have a new one: `KeysNeeded` says so, and whoever asked may wait for the keys and ask again. Nobody else
waits. Tokens that were good are remembered until they expire, for as long as the issuer is configured as it was.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tarmac.base.clock import Clock
from tarmac.server.security.credentials import Credential, CredentialCache
from tarmac.server.security.jwt import InvalidToken, Unverified
from tarmac.server.security.openid.fetching import KeySource
from tarmac.server.security.openid.keys import RemoteKeys
from tarmac.server.security.openid.mapping import Claims, Mapping
from tarmac.server.security.signatures import ALGORITHMS
from tarmac.server.security.users import User
from tarmac.store.interface import Store

_LEEWAY = 60.0  # for clocks that differ, of `nbf`; an expired token is expired
_GOOGLE = "https://accounts.google.com"
_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?", re.ASCII)


class KeysNeeded(Exception):
    """No key that is known made the signature, and the issuer may have others."""

    def __init__(self, keys: RemoteKeys) -> None:
        super().__init__()
        self.keys = keys


@dataclass(frozen=True)
class IssuerSettings:
    """One issuer as it is configured."""

    url: str
    audiences: frozenset[str]
    mapping: Mapping = field(compare=False)
    context: ssl.SSLContext = field(compare=False)
    algorithms: frozenset[str] = frozenset(ALGORITHMS)
    discovery_url: str = ""
    source: str = ""
    """All that it was made of, as a text: two with the same are the same, so what is known of the issuer stays."""


class Issuer:
    """One issuer at work."""

    def __init__(self, settings: IssuerSettings, store: Store, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        source = KeySource(settings.url, settings.discovery_url, settings.context)
        self.keys = RemoteKeys(source.fetch, clock)
        self.known = CredentialCache(store, clock)

    def recognise(self, token: Unverified) -> Credential:
        """Whom a token of this issuer speaks for. Raises InvalidToken, KeysNeeded."""
        expires = self._check_claims(token.claims)
        algorithm = token.header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in self.settings.algorithms or "crit" in token.header:
            wanted = " ".join(sorted(self.settings.algorithms))
            raise InvalidToken(
                f'oidc: id token signed with unsupported algorithm, expected [{wanted}] got "{algorithm}"'
            )
        if not self.keys.verify(token):
            if self.keys.may_change:
                raise KeysNeeded(self.keys)
            raise InvalidToken("oidc: failed to verify id token signature")
        return Credential(self.settings.mapping.user(token.claims), expires)

    def _check_claims(self, claims: Claims) -> float:
        """When it expires."""
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
    """Those that are configured, by their URLs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._issuers: dict[str, Issuer] = {}

    @property
    def none(self) -> bool:
        """Whether no issuer is configured."""
        return not self._issuers

    async def use(self, settings: Iterable[IssuerSettings]) -> None:
        """Take the tokens of these and no others. One that is configured as before keeps its keys."""
        before, self._issuers = self._issuers, {}
        for each in settings:
            kept = before.get(each.url)
            if kept is not None and kept.settings == each:
                self._issuers[each.url] = before.pop(each.url)
                continue
            self._issuers[each.url] = made = Issuer(each, self._store, self._clock)
            made.keys.begin()
        for issuer in before.values():
            await issuer.keys.close()

    async def close(self) -> None:
        """End what is under way."""
        await self.use(())

    def known(self, token: str) -> User | None:
        """The user of a token that was good before and still is."""
        for issuer in self._issuers.values():
            user = issuer.known.get(token)
            if user is not None:
                return user
        return None

    def of(self, claims: Claims) -> Issuer | None:
        """The issuer that a token names, if it is one of these."""
        name = claims.get("iss")
        if not isinstance(name, str):
            return None
        # Google's tokens may name it without the scheme.
        return self._issuers.get(_GOOGLE if name == _GOOGLE.removeprefix("https://") else name)


def _moment(claims: Claims, name: str) -> float:
    """A time in Unix seconds. Missing is long ago; a number in a text is taken, as kube-apiserver takes it."""
    found = claims.get(name, 0)
    if isinstance(found, str) and _NUMBER.fullmatch(found):
        return float(found)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise InvalidToken(f"oidc: failed to unmarshal claims: {name} is no time")
    return float(max(0, min(found, 2**62)))
