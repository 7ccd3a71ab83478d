"""A pod's token is bound to it, cached, renewed in time, and used until it expires while the server is away."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tarmac.agent.sources.podtokens import PodTokens
from tarmac.api.schema import JsonObject
from tarmac.base.clock import ManualClock, rfc3339
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.errors import Disconnected
from tarmac.client.local import LocalTransport
from tarmac.volumes.interface import SourceUnavailable
from tests.client.model_server import Answer

POD: JsonObject = {
    "metadata": {"name": "web", "namespace": "default", "uid": "uid-1"},
    "spec": {"serviceAccountName": "runner"},
}
HOUR = 3600


@dataclass
class Issuer:
    """Issues numbered tokens with the requested lifetime, or with the one that it grants."""

    clock: ManualClock = field(default_factory=ManualClock)
    granted: int = 0
    away: bool = False
    requests: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])

    def tokens(self) -> PodTokens:
        return PodTokens(Client(LocalTransport(self._handle), self.clock, Randomness(1)))

    def _handle(self, method: str, path: str, query: str, headers: object, body: bytes) -> Answer:
        if self.away:
            raise Disconnected("away")
        request = json.loads(body)
        self.requests.append((f"{method} {path}", request))
        seconds = self.granted or request["spec"]["expirationSeconds"]
        status = {
            "token": f"token-{len(self.requests)}",
            "expirationTimestamp": rfc3339(self.clock.now() + seconds),
        }
        answer = {**request, "spec": {**request["spec"], "expirationSeconds": seconds}, "status": status}
        return Answer(201, json.dumps(answer).encode())


async def test_a_token_is_asked_for_the_pods_account_and_bound_to_the_pod() -> None:
    issuer = Issuer()
    assert (await issuer.tokens().get(POD, "vault", 600))[0] == "token-1"
    where, request = issuer.requests[0]
    assert where == "POST /api/v1/namespaces/default/serviceaccounts/runner/token"
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-1"}
    assert request["spec"] == {"audiences": ["vault"], "expirationSeconds": 600, "boundObjectRef": bound}


async def test_without_an_audience_the_servers_own_is_meant() -> None:
    issuer = Issuer()
    await issuer.tokens().get(POD, "", 600)
    assert "audiences" not in issuer.requests[0][1]["spec"]


async def test_a_token_is_renewed_after_four_fifths_of_its_life() -> None:
    issuer = Issuer()
    tokens = issuer.tokens()
    await tokens.get(POD, "", HOUR)
    issuer.clock.advance(0.79 * HOUR)
    assert (await tokens.get(POD, "", HOUR))[0] == "token-1"
    issuer.clock.advance(0.02 * HOUR)
    assert (await tokens.get(POD, "", HOUR))[0] == "token-2"


async def test_a_long_lived_token_is_renewed_every_day() -> None:
    issuer = Issuer(granted=365 * 24 * HOUR)
    tokens = issuer.tokens()
    await tokens.get(POD, "", HOUR)
    issuer.clock.advance(23.9 * HOUR)
    assert (await tokens.get(POD, "", HOUR))[0] == "token-1"
    issuer.clock.advance(0.2 * HOUR)
    assert (await tokens.get(POD, "", HOUR))[0] == "token-2"


async def test_without_a_server_the_old_token_serves_to_its_end() -> None:
    issuer = Issuer()
    tokens = issuer.tokens()
    await tokens.get(POD, "", HOUR)
    issuer.away = True
    issuer.clock.advance(0.9 * HOUR)
    assert (await tokens.get(POD, "", HOUR))[0] == "token-1"
    issuer.clock.advance(0.2 * HOUR)
    with pytest.raises(SourceUnavailable, match="failed to fetch token: away"):
        await tokens.get(POD, "", HOUR)


async def test_tokens_of_a_pod_that_is_gone_are_forgotten() -> None:
    issuer = Issuer()
    tokens = issuer.tokens()
    await tokens.get(POD, "", HOUR)
    tokens.forget("uid-1")
    assert (await tokens.get(POD, "", HOUR))[0] == "token-2"


@pytest.mark.parametrize("seconds", [-365 * 24 * HOUR, 365 * 24 * HOUR], ids=["back", "forward"])
async def test_setting_the_clock_makes_a_token_neither_old_nor_young(seconds: float) -> None:
    issuer = Issuer()
    tokens = issuer.tokens()
    await tokens.get(POD, "", HOUR)
    issuer.clock.jump(seconds)
    assert (await tokens.get(POD, "", HOUR))[0] == "token-1"
    issuer.clock.advance(0.81 * HOUR)
    assert (await tokens.get(POD, "", HOUR))[0] == "token-2"
    issuer.clock.jump(seconds)
    issuer.away = True
    issuer.clock.advance(0.99 * HOUR)
    assert (await tokens.get(POD, "", HOUR))[0] == "token-2"
    issuer.clock.advance(0.02 * HOUR)
    with pytest.raises(SourceUnavailable):
        await tokens.get(POD, "", HOUR)
