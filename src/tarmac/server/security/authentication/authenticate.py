"""Authenticates requests: by client certificate, then by bearer token, else as the anonymous user.

Requests made inside this process already carry their user. Any authenticated user may ask to impersonate.

A certificate's common name is the user and its organisations are the groups. It is rejected if it has no common name or
several, if it was revoked, or if its authority was retired. A token comes from a service account or an OpenID Connect
issuer, or is a bootstrap token; any other token is rejected and never becomes the anonymous user. Checked credentials
are cached, so one credential always maps to the same `User` object; the authorizer's tables rely on that.

Authentication is synchronous, except for a token that an issuer may have signed with a key not known yet: then the
result is an awaitable, and only that request waits while the keys are fetched from the issuer.

Clients of registries only support passwords. On the path that issues registry tokens, and nowhere else, a password is
read as a token; a token for the registry audience alone is accepted there too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable
from contextlib import suppress

from tarmac.api.repositories import REGISTRY, TOKENS_PATH
from tarmac.api.status import ApiError, Unauthorized
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.http.messages import Request, basic_password, bearer_token
from tarmac.http.subjects import certificate_subject
from tarmac.server.security.authentication.impersonation import Impersonation
from tarmac.server.security.authentication.openid.issuers import Issuer, Issuers, KeysNeeded
from tarmac.server.security.authentication.subprotocols import take_token
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.certificates.authoritykeys import TrustedAuthorities
from tarmac.server.security.certificates.authorityusers import WRITE_INTERVAL
from tarmac.server.security.certificates.revocations import Revocations
from tarmac.server.security.credentials import Credential, CredentialCache
from tarmac.server.security.tokens import bootstraptokens
from tarmac.server.security.tokens.jwt import InvalidToken, Unverified, parse
from tarmac.server.security.tokens.serviceaccounts import ServiceAccountTokens
from tarmac.server.security.users import ANONYMOUS, User
from tarmac.store.interface import Store

_AUTHENTICATED = "system:authenticated"
_log = log("security")


class Authenticator:
    """Authenticates requests and applies impersonation."""

    def __init__(
        self,
        store: Store,
        tokens: ServiceAccountTokens,
        authorizer: Authorizer,
        clock: Clock,
        issuers: Issuers | None = None,
        authorities: TrustedAuthorities | None = None,
    ) -> None:
        self._store = store
        self._issuers = Issuers(store, clock) if issuers is None else issuers
        self._clock = clock
        self._tokens = tokens
        # Drops an entry when an object that it rests on changes; the expiry alone would let a revoked token live on.
        self._known = CredentialCache(store, clock)
        self._known_passwords = CredentialCache(store, clock)  # separate: some are valid for the registry only
        self._impersonation = Impersonation(authorizer)
        self._revocations = Revocations(store)
        self._authorities = authorities

    def authenticate(self, request: Request) -> User | Awaitable[User]:
        """Return the user of a request, possibly the anonymous one. Raises Unauthorized, Forbidden, BadRequest.

        If an issuer's keys have to be fetched, return an awaitable that raises the same.
        """
        try:
            return self.at_once(request)
        except KeysNeeded as needed:
            return self._authenticated_later(needed, request)

    def at_once(self, request: Request) -> User:
        """Authenticate synchronously, for callers that cannot await. Raises KeysNeeded too."""
        take_token(request)
        # After the credential: the rights to impersonate are those of the real user.
        return self._impersonation.identity(request, request.user or self._requester(request))

    def recognises(self, request: Request) -> bool:
        """Return True if the request has a valid credential. One that needs an issuer's keys first does not count."""
        try:
            return self.at_once(request) is not ANONYMOUS
        except (ApiError, KeysNeeded):
            return False

    async def _authenticated_later(self, needed: KeysNeeded, request: Request) -> User:
        # A client that disconnects cancels only its own wait; the fetch serves the other requests, too.
        await needed.keys.refresh()
        try:
            return self.at_once(request)
        except KeysNeeded as error:  # the fetch took so long that the next one may begin
            raise Unauthorized("Unauthorized") from error

    def _requester(self, request: Request) -> User:
        # TLS has verified the chain; the rest (revocation, a retired authority, the time) can change during a
        # connection.
        certificate = request.peer_certificate
        if certificate is not None:
            user = self._known.get(certificate) or self._check_certificate(certificate)
            if user is not None:
                return user
        token = bearer_token(request)
        if not token:
            return self._by_password(request) if request.path == TOKENS_PATH else ANONYMOUS
        return self._known.get(token) or self._issuers.known(token) or self._check_token(token)

    def _check_token(self, token: str) -> User:
        found = self._issued(token)
        # A token's user depends on its issuer's configuration, so it is cached with the issuer and dropped with it.
        return (self._known if found is None else found[0].known).keep(token, self._checked(token))

    def _checked(self, token: str) -> Credential:
        try:
            return self._review(token, ())
        except InvalidToken as error:
            _log.debug("token rejected", reason=str(error))
            raise Unauthorized("Unauthorized") from error

    def _by_password(self, request: Request) -> User:
        password = basic_password(request)
        if not password:
            return ANONYMOUS
        known = self._known_passwords.get(password)
        if known is not None:
            return known
        checked = self._check(password)
        # Check an issuer's token each time: entries of this cache do not end with the issuer.
        return checked.user if self._issued(password) else self._known_passwords.keep(password, checked)

    def _check(self, password: str) -> Credential:
        with suppress(InvalidToken):
            return self._review(password, (REGISTRY,))
        return self._checked(password)

    def review(self, token: str, audiences: tuple[str, ...]) -> Credential | Awaitable[Credential]:
        """Return the credential of a token for any of `audiences` (default: this server). Raises InvalidToken.

        If an issuer's keys have to be fetched, return an awaitable that raises the same.
        """
        try:
            return self._review(token, audiences)
        except KeysNeeded as needed:
            return self._reviewed_later(needed, token, audiences)

    async def _reviewed_later(self, needed: KeysNeeded, token: str, audiences: tuple[str, ...]) -> Credential:
        await needed.keys.refresh()
        try:
            return self._review(token, audiences)
        except KeysNeeded as error:
            raise InvalidToken("oidc: failed to verify id token signature") from error

    def _review(self, token: str, audiences: tuple[str, ...]) -> Credential:
        found = self._issued(token)
        if found is not None:
            issuer, read = found
            # An issuer's token is meant for our client id, which stands for the API server under all of its names.
            matched = tuple(each for each in audiences or self._tokens.audiences if each in self._tokens.audiences)
            if not matched:
                raise InvalidToken
            return issuer.recognise(read)._replace(audiences=matched)
        # Bootstrap tokens have one dot, JWTs two: each text is tried as one kind only, and never as the other after a
        # failure.
        if token.count(".") == 1:
            credential = bootstraptokens.recognise(token, self._store, self._clock)
            if credential is None:
                raise InvalidToken
            return credential
        return self._tokens.recognise(token, audiences)

    def _issued(self, token: str) -> tuple[Issuer, Unverified] | None:
        """Return the issuer that a token names and the parsed token. None for our own tokens and unknown issuers."""
        if self._issuers.none or token.count(".") != 2:
            return None
        with suppress(InvalidToken):
            # Not verified yet: only the issuer's name is read of it, to find the keys to verify with.
            read = parse(token)
            issuer = self._issuers.of(read.claims)
            return None if issuer is None else (issuer, read)
        return None

    def _check_certificate(self, der: bytes) -> User | None:
        try:
            subject, certificate = certificate_subject(der)
        except ValueError as error:
            raise Unauthorized(f"Unauthorized: the client certificate names nobody: {error}") from error
        expires = certificate.not_valid_after_utc.timestamp()
        # The handshake checked this once, but a connection may outlive its certificate.
        if expires <= self._clock.now():
            return None
        # Checked before the result is cached, and among the conditions it rests on: a later revocation drops it.
        holds = self._revocations.checked(subject.common_name, certificate)
        if self._authorities is not None:
            further, old = self._authorities.checked(subject.common_name, certificate)
            holds += further
            # Cached for less: the use of an old authority has to be recorded again while it lasts, or it would be
            # retired too early.
            expires = min(expires, self._clock.now() + WRITE_INTERVAL) if old else expires
        fingerprint = f"X509SHA256={hashlib.sha256(der).hexdigest()}"
        extra = {"authentication.kubernetes.io/credential-id": (fingerprint,)}
        user = User(subject.common_name, groups=(*subject.organisations, _AUTHENTICATED), extra=extra)
        return self._known.keep(der, Credential(user, expires, holds))
