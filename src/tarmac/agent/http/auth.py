"""Authentication and authorization of clients of the node's API, delegated to the API server and cached.

A client presents a certificate of the cluster's CA (verified by TLS) or a bearer token (TokenReview). Requests are
authorized as a verb on a subresource of this node (SubjectAccessReview), named as in kubelet: `proxy` unless a finer
one exists, and then either is sufficient. Anonymous requests are refused. Only the server knows revoked certificates:
each review carries the start of the certificate's validity, and a positive answer is cached for seconds. While the API
server is unreachable, cached results are valid until they expire; refusals expire sooner, so that a new permission
takes effect quickly. Open streams are reviewed without the cache (`openstreams`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from tarmac.agent.http.kubeletanswers import HttpError
from tarmac.api.identities import CERTIFICATE_NOT_BEFORE
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.clock import Clock, rfc3339
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import ACCESS_REVIEWS, TOKEN_REVIEWS
from tarmac.http.messages import Request, bearer_token

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_STREAMS = frozenset({"exec", "attach", "portForward", "run", "tarmac"})
_FINE = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz"}
_COARSE = {"stats": "stats", "metrics": "metrics", "logs": "log"}
_MAX_ENTRIES = 1024
_CERTIFICATE_SECONDS = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated client."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    not_before: str = ""  # of the certificate that was shown


class _Answer(NamedTuple):
    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReviewCacheTimes:
    """Cache durations in seconds, as KubeletConfiguration names them."""

    token: float = 120.0
    allowed: float = 300.0
    refused: float = 30.0


class RequestAuthorizer(Protocol):
    """Authenticates and authorizes requests."""

    async def admit(self, request: Request) -> str:
        """Authenticate and authorize the request; return the user name. Raises HttpError."""
        ...

    async def review(self, request: Request) -> None:
        """Authenticate and authorize an admitted request again, without cached answers.

        Raises HttpError: 401 or 403 if the caller lost the right, 500 if the API server cannot be asked.
        """
        ...


class DenyAll:
    """Refuses all requests: for a node that is reached only through tunnels."""

    async def admit(self, request: Request) -> str:
        """Refuse the request."""
        raise HttpError(401, "Unauthorized")

    async def review(self, request: Request) -> None:
        """Refuse the request."""
        raise HttpError(401, "Unauthorized")


class _Cache(Generic[T]):
    """A bounded cache with expiry. The oldest entry is evicted first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[object, tuple[float, T]] = {}

    def get(self, key: object) -> T | None:
        found = self._known.get(key)
        return found[1] if found is not None and found[0] > self._clock.monotonic() else None

    def keep(self, key: object, value: T, seconds: float) -> T:
        # So that a renewed entry moves to the end: the oldest is evicted first.
        self._known.pop(key, None)
        if len(self._known) >= _MAX_ENTRIES:
            del self._known[next(iter(self._known))]
        self._known[key] = (self._clock.monotonic() + seconds, value)
        return value


class ReviewAuthorizer:
    """Creates reviews at the API server with the node's credentials."""

    def __init__(self, client: Client, node: str, clock: Clock, times: ReviewCacheTimes | None = None) -> None:
        self._tokens = client.resource(TOKEN_REVIEWS)
        self._access = client.resource(ACCESS_REVIEWS)
        self._node = node
        self._times = times or ReviewCacheTimes()
        self._callers: _Cache[Caller] = _Cache(clock)
        self._answers: _Cache[_Answer] = _Cache(clock)

    async def admit(self, request: Request) -> str:
        """Return the user name.

        Raises HttpError: 401 unauthenticated, 403 forbidden, 500 if the API server cannot be asked.
        """
        return await self._admitted(request, fresh=False)

    async def review(self, request: Request) -> None:
        """Ask the API server again. Its answers replace the cached ones, so a new refusal holds for new requests too.

        Raises HttpError: as `admit`.
        """
        await self._admitted(request, fresh=True)

    async def _admitted(self, request: Request, *, fresh: bool) -> str:
        try:
            caller = await self._authenticate(request, fresh)
            # Before the authorization: a known user without the right still counts as authenticated for the limits of
            # bodies.
            request.authenticated = True
            verb, subresources = attributes(request)
            reason = ""
            for subresource in subresources:
                answer = await self._authorize(caller, verb, subresource, fresh)
                if answer.allowed:
                    return caller.name
                reason = reason or answer.reason
        except (ApiError, ClientError) as error:
            raise HttpError(500, f"the API server cannot say whether you may: {error}") from error
        what = f"verb={verb}, resource=nodes, subresource(s)=[{' '.join(subresources)}]"
        raise HttpError(403, f"Forbidden (user={caller.name}, {what})" + (f": {reason}" if reason else ""))

    async def _authenticate(self, request: Request, fresh: bool) -> Caller:
        if request.peer_certificate is not None:
            key = request.peer_certificate
            # Cached for long, since only the bytes decide the identity: revocation is a matter of the reviews below.
            return self._callers.get(key) or self._callers.keep(key, certified(key), self._times.allowed)
        token = bearer_token(request)
        if not token:
            raise HttpError(401, "Unauthorized")
        known = None if fresh else self._callers.get(token)
        return known or self._callers.keep(token, await self._reviewed(token), self._times.token)

    async def _reviewed(self, token: str) -> Caller:
        body = _review("TokenReview", "authentication.k8s.io/v1", {"token": token})
        status: JsonObject = (await self._tokens.create(body)).get("status", {})
        if not status.get("authenticated"):
            raise HttpError(401, "Unauthorized")
        user = status.get("user", {})
        return Caller(user.get("username", ""), tuple(user.get("groups") or ()), user.get("uid", ""))

    async def _authorize(self, caller: Caller, verb: str, subresource: str, fresh: bool) -> _Answer:
        key = (caller, verb, subresource)
        known = None if fresh else self._answers.get(key)
        if known is not None:
            return known
        attributes = {
            "verb": verb,
            "version": "v1",
            "resource": "nodes",
            "subresource": subresource,
            "name": self._node,
        }
        spec: JsonObject = {"user": caller.name, "groups": list(caller.groups), "resourceAttributes": attributes}
        if caller.uid:
            spec["uid"] = caller.uid
        if caller.not_before:
            spec["extra"] = {CERTIFICATE_NOT_BEFORE: [caller.not_before]}
        body = _review("SubjectAccessReview", "authorization.k8s.io/v1", spec)
        status: JsonObject = (await self._access.create(body)).get("status", {})
        answer = _Answer(bool(status.get("allowed")), status.get("reason", "") if status.get("denied") else "")
        # Keyed by the caller with its certificate's time: a renewed certificate does not inherit the answer.
        return self._answers.keep(key, answer, self._seconds(caller) if answer.allowed else self._times.refused)

    def _seconds(self, caller: Caller) -> float:
        """Return how long a positive answer is cached: short for certificates, because the server may revoke them."""
        return min(self._times.allowed, _CERTIFICATE_SECONDS) if caller.not_before else self._times.allowed


def _review(kind: str, version: str, spec: JsonObject) -> JsonObject:
    return {"kind": kind, "apiVersion": version, "metadata": {}, "spec": spec}


def attributes(request: Request) -> tuple[str, list[str]]:
    """Return the verb, and the subresources of which one must be allowed."""
    first = request.path.strip("/").partition("/")[0]
    verb = "create" if first in _STREAMS else _VERBS.get(request.method, request.method.lower())
    if first in _COARSE:
        return verb, [_COARSE[first]]
    return verb, [_FINE[first], "proxy"] if first in _FINE else ["proxy"]


def certified(certificate: bytes) -> Caller:
    """Return the identity of a client certificate: its common name, and its organisations as groups."""
    from tarmac.http.subjects import certificate_subject  # large, and needed only for clients without a tunnel

    try:
        subject, read = certificate_subject(certificate)
    except ValueError as error:
        raise HttpError(401, f"Unauthorized: the client certificate names nobody: {error}") from error
    groups = (*subject.organisations, "system:authenticated")
    return Caller(subject.common_name, groups, not_before=rfc3339(read.not_valid_before_utc.timestamp()))
