"""An instance reads its own metadata with its own token, and no other instance's."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tarmac.agent.metadata.egressmetadata import EgressFacts
from tarmac.agent.metadata.metadatatokens import MetadataTokens
from tarmac.agent.metadata.service import MetadataService
from tarmac.api.compute.names import API_VERSION, LABEL_CITY_CODE, LABEL_WORKLOAD_NAME
from tarmac.api.networking.interfaces import AttachedInterface, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.api.status import Forbidden
from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.http.messages import Request, Response
from tarmac.volumes.interface import SourceUnavailable

TTL, TOKEN = "x-tarmac-metadata-token-ttl-seconds", "x-tarmac-metadata-token"


def pod(uid: str = "p1", **metadata: Any) -> JsonObject:
    nics = [AttachedInterface("eth0", "default/default", mac="02:00", addresses=["10.128.0.2/20", "fd20::2/64"])]
    owner = {"apiVersion": API_VERSION, "kind": "Instance", "name": "web-0", "uid": "i1", "controller": True}
    return {
        "metadata": {
            "name": "web-0",
            "namespace": "default",
            "uid": uid,
            "labels": {LABEL_WORKLOAD_NAME: "web", LABEL_CITY_CODE: "DFW", "tier": "front"},
            "annotations": {ANNOTATION_INTERFACES: encode_interfaces(nics)},
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {},
    }


class Desk:
    """The service and a calling pod."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.away = self.refused = False
        self.signs: asyncio.Event | None = None  # the server answers once it is set
        self.service = MetadataService(
            MetadataTokens(self.clock, Randomness(1)), self._identify, "LHR", self._egress_of
        )

    async def _identify(self, pod: JsonObject, audience: str, seconds: int) -> tuple[str, float]:
        if self.signs is not None:
            await self.signs.wait()
        if self.away:
            raise SourceUnavailable("the server does not answer")
        if self.refused:
            error = Forbidden("not for the bank")
            raise SourceUnavailable(f"failed to fetch token: {error}") from error
        return f"{pod['metadata']['uid']} for {audience}", seconds

    def _egress_of(self, uid: str) -> EgressFacts:
        return [{"externalService": f"default/{uid}"}]

    async def ask(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        asker: JsonObject | None = None,
        query: str = "",
    ) -> Response:
        return await self.service.answer(Request(method, path, query, headers), asker if asker is not None else pod())

    async def token(self, asker: JsonObject | None = None, seconds: int = 60) -> str:
        answer = await self.ask("PUT", "/v1/token", {TTL: str(seconds)}, asker)
        assert answer.status == 200
        assert ("X-Tarmac-Metadata-Token-TTL-Seconds", str(seconds)) in (answer.headers or [])
        return text(answer)

    async def read(self, name: str, asker: JsonObject | None = None, query: str = "") -> Response:
        return await self.ask("GET", f"/v1/instance/{name}", {TOKEN: await self.token(asker)}, asker, query)


def text(answer: Response) -> str:
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("id", "i1"), ("name", "web-0"), ("namespace", "default"), ("workload", "web"), ("city", "DFW")],
)
async def test_words_are_told_as_text(name: str, expected: str) -> None:
    answer = await Desk().read(name)
    assert (answer.status, text(answer)) == (200, expected)
    assert answer.content_type.startswith("text/plain")
    assert ("Cache-Control", "no-store") in (answer.headers or [])


async def test_the_rest_is_told_as_json() -> None:
    desk = Desk()
    assert json.loads(text(await desk.read("labels")))["tier"] == "front"
    addresses = json.loads(text(await desk.read("addresses")))
    assert [each["address"] for each in addresses] == ["10.128.0.2/20", "fd20::2/64"]
    assert addresses[0] | {"address": ""} == {
        "interface": "eth0",
        "network": "default/default",
        "address": "",
        "mac": "02:00",
    }
    assert json.loads(text(await desk.read("")))["city"] == "DFW"
    assert json.loads(text(await desk.read("egress"))) == [{"externalService": "default/p1"}]


async def test_a_plain_pod_is_told_what_there_is() -> None:
    desk, plain = Desk(), pod("p9", labels=None, ownerReferences=None, annotations=None)
    assert text(await desk.read("id", plain)) == "p9"
    assert text(await desk.read("city", plain)) == "LHR"
    assert text(await desk.read("workload", plain)) == ""
    assert text(await desk.read("addresses", plain)) == "[]"


async def test_without_a_token_nothing_is_told() -> None:
    desk = Desk()
    mine = await desk.token()
    for token in ("", "x", mine[:-1], mine + "A", "AAAA" + mine[4:], "é", "=" * 60):
        assert (await desk.ask("GET", "/v1/instance/name", {TOKEN: token})).status == 401
    assert (await desk.ask("GET", "/v1/instance/name")).status == 401
    assert (await desk.ask("GET", "/v1/instance/name", {TOKEN: mine}, pod("p2"))).status == 401


@pytest.mark.parametrize("seconds", [-(10**9), 10**9], ids=["back", "forward"])
async def test_setting_the_clock_ends_no_token_and_keeps_none(seconds: float) -> None:
    desk = Desk()
    token = await desk.token()
    desk.clock.jump(seconds)
    assert (await desk.ask("GET", "/v1/instance/name", {TOKEN: token})).status == 200
    desk.clock.advance(61)
    assert (await desk.ask("GET", "/v1/instance/name", {TOKEN: token})).status == 401


async def test_a_token_ends() -> None:
    desk = Desk()
    token = await desk.token(seconds=60)
    desk.clock.advance(59)
    assert (await desk.ask("GET", "/v1/instance/name", {TOKEN: token})).status == 200
    desk.clock.advance(2)
    assert (await desk.ask("GET", "/v1/instance/name", {TOKEN: token})).status == 401


@pytest.mark.parametrize("seconds", ["", "0", "-1", "21601", "1e3", "999999999999", "٣"])
async def test_a_token_is_asked_for_with_its_life(seconds: str) -> None:
    assert (await Desk().ask("PUT", "/v1/token", {TTL: seconds})).status == 400


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via"])
async def test_a_forwarded_request_is_refused(header: str) -> None:
    desk = Desk()
    token = await desk.token()
    assert (await desk.ask("PUT", "/v1/token", {TTL: "60", header: "10.0.0.1"})).status == 403
    assert (await desk.ask("GET", "/v1/instance/name", {TOKEN: token, header: "10.0.0.1"})).status == 403


async def test_other_paths_and_methods_are_not_there() -> None:
    desk = Desk()
    token = await desk.token()
    assert (await desk.ask("GET", "/latest/meta-data", {TOKEN: token})).status == 404
    assert (await desk.ask("GET", "/v1/instance/../token", {TOKEN: token})).status == 404
    assert (await desk.ask("GET", "/v1/instance/password", {TOKEN: token})).status == 404
    assert (await desk.ask("GET", "/v1/token", {TTL: "60"})).status == 405
    assert (await desk.ask("POST", "/v1/instance/name", {TOKEN: token})).status == 405


async def test_a_caller_that_nobody_knows_is_told_nothing() -> None:
    answer = await Desk().service.answer(Request("PUT", "/v1/token", "", {TTL: "60"}), None)
    assert answer.status == 404


async def test_an_identity_is_for_somebody_and_not_for_our_server() -> None:
    desk = Desk()
    assert text(await desk.read("identity", query="audience=vault")) == "p1 for vault"
    assert (await desk.read("identity")).status == 400
    assert (await desk.read("identity", query="audience=https://kubernetes.default.svc")).status == 403
    desk.away = True
    assert (await desk.read("identity", query="audience=vault")).status == 503


async def test_an_identity_that_the_server_refuses_is_refused() -> None:
    desk = Desk()
    desk.refused = True
    answer = await desk.read("identity", query="audience=bank")
    assert (answer.status, text(answer)) == (403, "failed to fetch token: not for the bank")


async def test_identities_are_not_given_without_end() -> None:
    desk = Desk()
    statuses = [(await desk.read("identity", query=f"audience=a{number}")).status for number in range(10)]
    assert statuses == [200] * 8 + [429] * 2
    assert (await desk.read("identity", pod("p2"), "audience=a9")).status == 200
    assert (await desk.read("identity", query="audience=a0")).status == 200


async def test_concurrent_requests_of_a_pod_share_the_limit_of_audiences() -> None:
    desk = Desk()
    desk.signs = asyncio.Event()
    token = await desk.token()
    asked = [
        asyncio.create_task(desk.ask("GET", "/v1/instance/identity", {TOKEN: token}, query=f"audience=a{number}"))
        for number in range(20)
    ]
    await asyncio.sleep(0)
    asked[0].cancel()
    await asyncio.sleep(0)
    desk.signs.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    statuses = [each.status for each in answers if isinstance(each, Response)]
    assert sorted(statuses) == [200] * 7 + [429] * 12
    assert (await desk.read("identity", query="audience=b")).status == 200, "the cancelled request took no place"
    assert (await desk.read("identity", query="audience=c")).status == 429
