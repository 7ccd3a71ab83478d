"""Issues tokens for the platform's registry with docker's token protocol.

    client → registry: push            401, with this server's URL and the scopes needed
    client → here: scopes, password    a token with the granted scopes, valid for minutes
    client → registry: push, token     the registry verifies our signature and compares the scopes

Each action of a scope is a verb on `repositories.images.tarmac.dev` in the namespace that the repository's name begins
with. The authorizer decides; then the namespace must exist and have room. Clients ask for more than they need (a second
repository, to share a layer with), so scopes that cannot be granted are left out; if no scope can be granted in full,
the answer is an error with the reasons.

A client that knows how much it will push adds it as `bytes`: a push that cannot fit is refused before it begins.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tarmac.api.repositories import (
    BYTES,
    GROUP,
    PULL,
    PUSH,
    REGISTRY,
    RESOURCE,
    TOKEN_ISSUER,
    Repository,
    parse_repository,
)
from tarmac.api.status import NO_METHOD, MethodNotAllowed
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.randomness import Randomness
from tarmac.http.messages import Request, Response
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.authorize import Authorizer, refusal
from tarmac.server.security.certificates.issuing import KeyPair
from tarmac.server.security.tokens.jwt import SigningKey
from tarmac.server.security.tokens.repositoryroom import RepositoryRoom
from tarmac.server.security.users import ANONYMOUS, User

LIFETIME: Final = 300  # seconds
PUSH_LIFETIME: Final = 60  # the shortest that clients accept; within it, a namespace may exceed its quota
MAX_SCOPES: Final = 16
_MAX_SCOPE: Final = 512
_MAX_DIGITS: Final = 18
_CATALOG: Final = "registry:catalog:*"
_CODES: Final = {400: "NAME_INVALID", 401: "UNAUTHORIZED", 403: "DENIED"}
_NAMES: Final = "a repository is called NAMESPACE/NAME, in lower-case letters, digits and single . _ or - between them"


class _Scope(NamedTuple):
    """A requested scope: the registry's kind and name, and our request per action."""

    kind: str
    name: str
    actions: dict[str, RequestInfo]


class _BadScope(ValueError):
    """A scope that can never be granted."""


class RepositoryTokens:
    """Answers clients of the registry. The key pair is loaded on first use, and again after each replacement."""

    def __init__(
        self,
        authorizer: Authorizer,
        room: RepositoryRoom,
        pair: Callable[[], KeyPair],
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._authorizer = authorizer
        self._room = room
        self._pair = pair
        self._key: SigningKey | None = None
        self._key_version = room.key_version
        self._clock = clock
        self._randomness = randomness

    def answer(self, request: Request) -> Response:
        """Return a token for the permitted part of the requested scopes, or an error with the reasons."""
        if request.method != "GET":  # clients try OAuth's POST first, then GET
            raise MethodNotAllowed(NO_METHOD, details={})
        try:
            scopes, size = _scopes(request), _bytes(request)
        except _BadScope as error:
            return _refused(400, str(error))
        user: User = request.user
        if user is ANONYMOUS and not scopes:
            return _unknown("log in with any name, and a token of a service account as the password")
        granted = [self._granted(user, scope, size) for scope in scopes]
        if scopes and not any(
            len(each.actions) == len(scope.actions) for each, scope in zip(granted, scopes, strict=True)
        ):
            why = self._why(user, scopes, size)
            return _unknown(why) if user is ANONYMOUS else _refused(403, why)
        return self._token(user, [each for each in granted if each.actions])

    def _granted(self, user: User, scope: _Scope, size: int) -> _Scope:
        may = {action: info for action, info in scope.actions.items() if self._refusal(user, info, size) is None}
        return scope._replace(actions=may)

    def _refusal(self, user: User, info: RequestInfo, size: int) -> str | None:
        """Return the reason for a rejection: a missing right or, revealed to authorized users only, missing room."""
        why = self._authorizer.refuses(user, info)
        if why is not None:
            return str(refusal(user, info, why))
        return self._room.refusal(info.namespace, info.verb, size) if info.namespace else None

    def _why(self, user: User, scopes: Sequence[_Scope], size: int) -> str:
        infos = [info for scope in scopes for info in scope.actions.values()]
        found = [why for info in infos if (why := self._refusal(user, info, size)) is not None]
        return "; ".join(dict.fromkeys(found))

    def _token(self, user: User, granted: Sequence[_Scope]) -> Response:
        now = int(self._clock.now())
        # The registry compares only signature and scopes: a right that is revoked, or a quota that is full, counts
        # from the end of this lifetime on.
        lifetime = PUSH_LIFETIME if any(PUSH in each.actions for each in granted) else LIFETIME
        access = [{"type": each.kind, "name": each.name, "actions": list(each.actions)} for each in granted]
        claims: dict[str, Any] = {
            "iss": TOKEN_ISSUER,
            "sub": user.name,
            "aud": REGISTRY,
            "exp": now + lifetime,
            "nbf": now,
            "iat": now,
            "jti": self._randomness.uuid(),
            "access": access,
        }
        token = self._signing_key().sign(claims)
        body = {"token": token, "access_token": token, "expires_in": lifetime, "issued_at": rfc3339(now)}
        return Response(200, msgspec.json.encode(body), headers=[("Cache-Control", "no-store")])

    def _signing_key(self) -> SigningKey:
        if self._key is None or self._key_version != self._room.key_version:
            version = self._room.key_version
            self._key = SigningKey(self._pair().key, key_id)
            self._key_version = version  # last: after a failed read, the next token tries again
        return self._key


def _scopes(request: Request) -> list[_Scope]:
    """Parse the requested scopes. Raises _BadScope."""
    if request.param("service") != REGISTRY:
        raise _BadScope(f"service must be {REGISTRY}: tokens for others are not to be had here")
    texts = [text for value in request.params().get("scope", ()) for text in value.split()]
    if len(texts) > MAX_SCOPES:
        raise _BadScope(f"{len(texts)} scopes are asked for at once, and {MAX_SCOPES} is the most")
    return [_scope(text) for text in texts]


def _bytes(request: Request) -> int:
    """Parse our own parameter: the bytes that the client is about to push. Raises _BadScope."""
    text = request.param(BYTES) or "0"
    # The length bounds int(); `isdecimal` also accepts digits of other scripts, which int() reads, too.
    if not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise _BadScope(f"{BYTES}={text[:_MAX_DIGITS]!r} is not a number of bytes")
    return int(text)


def _scope(text: str) -> _Scope:
    """Parse `repository:NAMESPACE/NAME:pull,push`, or the catalogue of all repositories. Raises _BadScope."""
    if len(text) > _MAX_SCOPE:
        raise _BadScope(f"a scope is longer than {_MAX_SCOPE} characters")
    if text == _CATALOG:
        return _Scope("registry", "catalog", {"*": RequestInfo("list", "", True, GROUP, "", RESOURCE)})
    kind, _, rest = text.partition(":")
    name, _, actions = rest.rpartition(":")
    repository = parse_repository(name)
    if kind != "repository" or repository is None:
        raise _BadScope(f"scope {text!r}: {_NAMES}")
    return _Scope(kind, name, {action: _asked(action, repository) for action in actions.split(",") if action})


def _asked(action: str, repository: Repository) -> RequestInfo:
    # Reject unknown actions such as `*`: as a verb, a wildcard in a role would grant it.
    if action not in (PULL, PUSH):
        raise _BadScope(f"{action!r} cannot be had for a repository: {PULL} and {PUSH} can")
    return RequestInfo(action, "", True, GROUP, "", RESOURCE, "", repository.namespace, repository.name)


def _refused(status: int, message: str, headers: list[tuple[str, str]] | None = None) -> Response:
    """Build an error in the registry protocol's format; clients print its message."""
    return Response(
        status, msgspec.json.encode({"errors": [{"code": _CODES[status], "message": message}]}), headers=headers
    )


def _unknown(message: str) -> Response:
    return _refused(401, message, [("WWW-Authenticate", f'Basic realm="{REGISTRY}"')])


def key_id(public: bytes) -> str:
    """Return a key's id as the registry computes it from the certificates it trusts."""
    text = base64.b32encode(hashlib.sha256(public).digest()[:30]).decode()
    return ":".join(text[start : start + 4] for start in range(0, len(text), 4))
