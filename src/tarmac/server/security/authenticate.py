"""Who is asking? Tried in order: a verified client certificate, a bearer token, nobody (the anonymous user).

Callers in this process have said so already. Whoever it is may ask to act as somebody else.

A certificate's one common name is the user and its organisations are the groups; with none or several it is refused. A
token is a service account's or a
bootstrap token; one that is neither is refused, it never becomes the anonymous user. Checked credentials are
remembered, so the same `User` object stands for the same credential, which the authorizer's tables rely on.

Clients of registries know passwords only. Where tokens for the registry are given out, and nowhere else, a password is
read as a token, and may be one that is meant for the registry alone.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

from tarmac.api.repositories import REGISTRY, TOKENS_PATH
from tarmac.api.status import Unauthorized
from tarmac.base.clock import Clock
from tarmac.http.messages import Request, basic_password, bearer_token
from tarmac.http.subjects import certificate_subject
from tarmac.server.security import bootstraptokens
from tarmac.server.security.authorize import Authorizer
from tarmac.server.security.credentials import Credential, CredentialCache
from tarmac.server.security.impersonation import Impersonation
from tarmac.server.security.jwt import InvalidToken
from tarmac.server.security.serviceaccounts import ServiceAccountTokens
from tarmac.server.security.users import ANONYMOUS, User
from tarmac.store.interface import Store

_AUTHENTICATED = "system:authenticated"


class Authenticator:
    """Finds out who asks, and whom they act as."""

    def __init__(self, store: Store, tokens: ServiceAccountTokens, authorizer: Authorizer, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._tokens = tokens
        self._known = CredentialCache(store, clock)
        self._known_passwords = CredentialCache(store, clock)  # apart: some of them are good for the registry only
        self._impersonation = Impersonation(authorizer)

    def authenticate(self, request: Request) -> User:
        """The identity a request acts under, perhaps the anonymous one. Raises Unauthorized, Forbidden, BadRequest."""
        return self._impersonation.identity(request, request.user or self._requester(request))

    def _requester(self, request: Request) -> User:
        certificate = request.peer_certificate
        if certificate is not None:
            user = self._known.get(certificate) or self._check_certificate(certificate)
            if user is not None:
                return user
        token = bearer_token(request)
        if not token:
            return self._by_password(request) if request.path == TOKENS_PATH else ANONYMOUS
        return self._known.get(token) or self._known.keep(token, self._check_token(token))

    def _check_token(self, token: str) -> Credential:
        try:
            return self.review(token, ())
        except InvalidToken as error:
            raise Unauthorized("Unauthorized") from error

    def _by_password(self, request: Request) -> User:
        password = basic_password(request)
        if not password:
            return ANONYMOUS
        return self._known_passwords.get(password) or self._known_passwords.keep(password, self._check(password))

    def _check(self, password: str) -> Credential:
        with suppress(InvalidToken):
            return self.review(password, (REGISTRY,))
        return self._check_token(password)

    def review(self, token: str, audiences: tuple[str, ...]) -> Credential:
        """Who a token speaks for, to any of `audiences` (default: to us). Raises InvalidToken."""
        if token.count(".") == 1:
            credential = bootstraptokens.recognise(token, self._store, self._clock)
            if credential is None:
                raise InvalidToken
            return credential
        return self._tokens.recognise(token, audiences)

    def _check_certificate(self, der: bytes) -> User | None:
        try:
            subject, certificate = certificate_subject(der)
        except ValueError as error:
            raise Unauthorized(f"Unauthorized: the client certificate names nobody: {error}") from error
        expires = certificate.not_valid_after_utc.timestamp()
        if expires <= self._clock.now():
            return None
        fingerprint = f"X509SHA256={hashlib.sha256(der).hexdigest()}"
        extra = {"authentication.kubernetes.io/credential-id": (fingerprint,)}
        user = User(subject.common_name, groups=(*subject.organisations, _AUTHENTICATED), extra=extra)
        return self._known.keep(der, Credential(user, expires))
