"""Authentication and authorization of node API requests: reviewed by the API server, and cached."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from tarmac.agent.http.auth import ReviewAuthorizer, ReviewCacheTimes, attributes
from tarmac.agent.http.kubeletanswers import HttpError
from tarmac.api.identities import CERTIFICATE_NOT_BEFORE
from tarmac.base.clock import ManualClock, parse_rfc3339
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.local import LocalTransport
from tarmac.http.messages import Request, Response
from tarmac.server.security.certificates.issuing import load_certificate
from tarmac.server.security.certificates.pki import Pki


class Reviewer:
    """An API server that reviews tokens and access. `rights` are (user, verb, subresource)."""

    def __init__(self) -> None:
        self.tokens = {"good": "alice"}
        self.rights = {("alice", "get", "metrics")}
        self.asked: list[dict[str, Any]] = []
        self.away = False
        self.reason = ""  # of a denial

    def handle(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Response:
        if self.away:
            return Response(503, b'{"kind":"Status","code":503,"reason":"ServiceUnavailable","message":"away"}')
        review = msgspec.json.decode(body)
        self.asked.append(review)
        spec = review["spec"]
        if review["kind"] == "TokenReview":
            name = self.tokens.get(spec["token"])
            review["status"] = {"authenticated": name is not None, "user": {"username": name, "groups": ["g"]}}
        else:
            what = spec["resourceAttributes"]
            assert (what["resource"], what["name"]) == ("nodes", "n1")
            review["status"] = {"allowed": (spec["user"], what["verb"], what["subresource"]) in self.rights}
            if self.reason:
                review["status"] |= {"denied": True, "reason": self.reason}
        return Response(201, msgspec.json.encode(review))

    def count(self, kind: str) -> int:
        return len([each for each in self.asked if each["kind"] == kind])


@pytest.fixture
def reviewer() -> Reviewer:
    return Reviewer()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def callers(reviewer: Reviewer, clock: ManualClock) -> ReviewAuthorizer:
    client = Client(LocalTransport(reviewer.handle), clock, Randomness())
    return ReviewAuthorizer(client, "n1", clock, ReviewCacheTimes(token=120, allowed=300, refused=30))


def request(path: str, token: str = "good", method: str = "GET") -> Request:
    return Request(method, path, headers={"authorization": f"Bearer {token}"} if token else {})


async def refused(callers: ReviewAuthorizer, asked: Request) -> int:
    with pytest.raises(HttpError) as caught:
        await callers.admit(asked)
    return caught.value.status


async def test_the_unknown_are_refused(callers: ReviewAuthorizer) -> None:
    assert await refused(callers, request("/metrics", token="")) == 401
    assert await refused(callers, request("/metrics", token="bad")) == 401
    assert await refused(callers, Request("GET", "/metrics", headers={"authorization": "Basic good"})) == 401


async def test_a_client_with_a_valid_token_counts_as_authenticated(callers: ReviewAuthorizer) -> None:
    """Also a client without the right: it keeps the limits of authenticated clients."""
    for path, token, known in (("/metrics", "good", True), ("/pods", "good", True), ("/metrics", "bad", False)):
        asked = request(path, token)
        with suppress(HttpError):
            await callers.admit(asked)
        assert asked.authenticated is known


async def test_those_who_may_are_let_in_and_remembered(
    callers: ReviewAuthorizer, reviewer: Reviewer, clock: ManualClock
) -> None:
    for _ in range(3):
        await callers.admit(request("/metrics/resource"))
    assert (reviewer.count("TokenReview"), reviewer.count("SubjectAccessReview")) == (1, 1)
    reviewer.away = True
    await callers.admit(request("/metrics"))  # cached results stay valid while the server is away
    clock.advance(301)
    assert await refused(callers, request("/metrics")) == 500


async def test_a_refusal_is_forgotten_sooner_than_a_right(
    callers: ReviewAuthorizer, reviewer: Reviewer, clock: ManualClock
) -> None:
    assert await refused(callers, request("/pods")) == 403
    reviewer.rights.add(("alice", "get", "pods"))
    assert await refused(callers, request("/pods")) == 403
    clock.advance(31)
    await callers.admit(request("/pods"))


async def test_a_fine_right_or_the_coarse_one_is_enough(callers: ReviewAuthorizer, reviewer: Reviewer) -> None:
    reviewer.rights.add(("alice", "get", "proxy"))
    await callers.admit(request("/pods"))
    await callers.admit(request("/containerLogs/default/web/main"))
    assert await refused(callers, request("/stats/summary")) == 403


@pytest.mark.parametrize("path", ["/exec/a/b/c", "/attach/a/b/c", "/portForward/a/b", "/run/a/b/c", "//exec/a/b/c"])
async def test_opening_a_stream_is_to_create(callers: ReviewAuthorizer, reviewer: Reviewer, path: str) -> None:
    reviewer.rights.add(("alice", "get", "proxy"))
    assert await refused(callers, request(path)) == 403


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/metrics/resource", ("get", ["metrics"])),
        ("GET", "/stats/summary", ("get", ["stats"])),
        ("GET", "/logs/", ("get", ["log"])),
        ("GET", "/pods", ("get", ["pods", "proxy"])),
        ("GET", "/runningpods/", ("get", ["pods", "proxy"])),
        ("GET", "/healthz", ("get", ["healthz", "proxy"])),
        ("GET", "/configz", ("get", ["configz", "proxy"])),
        ("GET", "/containerLogs/a/b/c", ("get", ["proxy"])),
        ("PUT", "/anything", ("update", ["proxy"])),
        ("GET", "/exec/a/b/c", ("create", ["proxy"])),
    ],
)
def test_requests_map_to_the_attributes_of_a_kubelet(method: str, path: str, expected: tuple[str, list[str]]) -> None:
    assert attributes(Request(method, path)) == expected


async def test_the_server_is_told_since_when_a_certificate_is_valid_and_asked_again_soon(
    callers: ReviewAuthorizer, reviewer: Reviewer, clock: ManualClock, tmp_path: Path
) -> None:
    """Only the server knows whether the certificate was revoked."""
    pair = Pki(tmp_path, clock).authority.issue_client("alice", (), clock.now())
    asked = request("/metrics", token="")
    asked.peer_certificate = load_certificate(pair.certificate).public_bytes(Encoding.DER)
    assert await callers.admit(asked) == "alice"
    (told,) = reviewer.asked[-1]["spec"]["extra"][CERTIFICATE_NOT_BEFORE]
    assert parse_rfc3339(told) == load_certificate(pair.certificate).not_valid_before_utc.timestamp()
    assert await callers.admit(asked) == "alice"
    assert reviewer.count("SubjectAccessReview") == 1
    reviewer.rights.clear()
    reviewer.reason = 'the certificate of "alice" was revoked'
    clock.advance(11)
    with pytest.raises(HttpError, match=r"Forbidden .*: the certificate of \"alice\" was revoked"):
        await callers.admit(asked)
