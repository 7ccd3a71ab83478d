"""Who calls the node, and whether they may: asked of the API server, remembered for a while.

A caller shows a client certificate of the cluster's authority (TLS has verified it) or a bearer token (TokenReview).
What the caller wants is a verb on a subresource of this node (SubjectAccessReview), in kubelet's words: `proxy` unless
something finer fits, and then either is enough. Nobody is let in unknown. While the API server is away, what is
remembered still holds until its time is up; a refusal is forgotten sooner, so that a new right is soon usable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tarmac.agent.http.answers import HttpError
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.clock import Clock
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import ACCESS_REVIEWS, TOKEN_REVIEWS
from tarmac.http.messages import Request, bearer_token

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_STREAMS = frozenset({"exec", "attach", "portForward", "run", "tarmac"})
_FINE = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz"}
_COARSE = {"stats": "stats", "metrics": "metrics", "logs": "log"}
_MOST = 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who has shown who they are."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


@dataclass(frozen=True, slots=True)
class CallerTimes:
    """How long answers hold, in seconds, as KubeletConfiguration names them."""

    token: float = 120.0
    allowed: float = 300.0
    refused: float = 30.0


class Callers(Protocol):
    """Lets requests in, or not."""

    async def admit(self, request: Request) -> str:
        """The name of whoever asks, who may. Raises Refusal."""
        ...


class Nobody:
    """Lets nobody in: for a node that is reached by tunnels only."""

    async def admit(self, request: Request) -> str:
        """Refuse."""
        raise HttpError(401, "Unauthorized")


class _Memory(Generic[T]):
    """Answers with an end. The oldest make room."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[object, tuple[float, T]] = {}

    def get(self, key: object) -> T | None:
        found = self._known.get(key)
        return found[1] if found is not None and found[0] > self._clock.monotonic() else None

    def keep(self, key: object, value: T, seconds: float) -> T:
        self._known.pop(key, None)
        if len(self._known) >= _MOST:
            del self._known[next(iter(self._known))]
        self._known[key] = (self._clock.monotonic() + seconds, value)
        return value


class ReviewedCallers:
    """Asks the API server, as the node."""

    def __init__(self, client: Client, node: str, clock: Clock, times: CallerTimes | None = None) -> None:
        self._tokens = client.resource(TOKEN_REVIEWS)
        self._access = client.resource(ACCESS_REVIEWS)
        self._node = node
        self._times = times or CallerTimes()
        self._callers: _Memory[Caller] = _Memory(clock)
        self._answers: _Memory[bool] = _Memory(clock)

    async def admit(self, request: Request) -> str:
        """Who it is. Raises Refusal: 401 for strangers, 403 for those who may not, 500 when nobody can be asked."""
        try:
            caller = await self._who(request)
            request.known = True
            verb, subresources = attributes(request)
            for subresource in subresources:
                if await self._may(caller, verb, subresource):
                    return caller.name
        except (ApiError, ClientError) as error:
            raise HttpError(500, f"the API server cannot say whether you may: {error}") from error
        what = f"verb={verb}, resource=nodes, subresource(s)=[{' '.join(subresources)}]"
        raise HttpError(403, f"Forbidden (user={caller.name}, {what})")

    async def _who(self, request: Request) -> Caller:
        if request.peer_certificate is not None:
            key = request.peer_certificate
            return self._callers.get(key) or self._callers.keep(key, certified(key), self._times.allowed)
        token = bearer_token(request)
        if not token:
            raise HttpError(401, "Unauthorized")
        return self._callers.get(token) or self._callers.keep(token, await self._reviewed(token), self._times.token)

    async def _reviewed(self, token: str) -> Caller:
        body = _review("TokenReview", "authentication.k8s.io/v1", {"token": token})
        status: JsonObject = (await self._tokens.create(body)).get("status", {})
        if not status.get("authenticated"):
            raise HttpError(401, "Unauthorized")
        user = status.get("user", {})
        return Caller(user.get("username", ""), tuple(user.get("groups") or ()), user.get("uid", ""))

    async def _may(self, caller: Caller, verb: str, subresource: str) -> bool:
        key = (caller, verb, subresource)
        known = self._answers.get(key)
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
        body = _review("SubjectAccessReview", "authorization.k8s.io/v1", spec)
        allowed = bool((await self._access.create(body)).get("status", {}).get("allowed"))
        return self._answers.keep(key, allowed, self._times.allowed if allowed else self._times.refused)


def _review(kind: str, version: str, spec: JsonObject) -> JsonObject:
    return {"kind": kind, "apiVersion": version, "metadata": {}, "spec": spec}


def attributes(request: Request) -> tuple[str, list[str]]:
    """The verb, and the subresources of which one must be allowed."""
    first = request.path.strip("/").partition("/")[0]
    verb = "create" if first in _STREAMS else _VERBS.get(request.method, request.method.lower())
    if first in _COARSE:
        return verb, [_COARSE[first]]
    return verb, [_FINE[first], "proxy"] if first in _FINE else ["proxy"]


def certified(certificate: bytes) -> Caller:
    """Whom a client certificate speaks for: its common name, and its organisations as groups."""
    from tarmac.http.subjects import certificate_subject  # large, and needed only when somebody comes without a tunnel

    try:
        subject, _ = certificate_subject(certificate)
    except ValueError as error:
        raise HttpError(401, f"Unauthorized: the client certificate names nobody: {error}") from error
    return Caller(subject.common_name, (*subject.organisations, "system:authenticated"))
