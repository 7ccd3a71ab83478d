"""`tarmac dashboard` is no open door: each test fails when the defence in its name is removed."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from inspect import isawaitable
from pathlib import Path

import msgspec
import pytest

from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.dashboard.files import DashboardFiles
from tarmac.dashboard.loopback import CODE_SECONDS, Loopback
from tarmac.http.messages import Answer, Request, Response

HERE = "127.0.0.1:6480"
BEARER = "base64url.bearer.authorization.k8s.io."


class Door:
    """The page at a port, and the forwarded requests."""

    def __init__(self, folder: Path) -> None:
        self.passed: list[Request] = []
        self.warned: list[str] = []
        self.clock = ManualClock()
        files = DashboardFiles(Randomness(1), folder)
        self.page = Loopback(files, self._pass_on, "https://s", "shop", self.warned.append, self.clock, Randomness(1))
        self.page.serve_at(6480)

    async def _pass_on(self, request: Request) -> Answer:
        self.passed.append(request)
        return Response(200, b"{}")

    async def ask(
        self, path: str, method: str = "GET", body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Response:
        answer = self.page.answer(Request(method, path, headers={"host": HERE, **(headers or {})}, body=body))
        answer = await answer if isawaitable(answer) else answer
        assert isinstance(answer, Response)
        return answer

    async def exchange(self, code: str, **headers: str) -> Response:
        return await self.ask("/dashboard/session", "POST", msgspec.json.encode({"code": code}), headers)

    async def enter(self) -> str:
        answer = await self.exchange(self.code())
        assert answer.status == 200
        return msgspec.json.decode(bytes(answer.body))["token"]  # type: ignore[arg-type]

    def code(self) -> str:
        return self.page.new_address().partition("#code=")[2]


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


async def test_a_code_is_exchanged_for_a_token_that_opens_the_api(door: Door) -> None:
    answer = await door.exchange(door.code())
    session = msgspec.json.decode(bytes(answer.body))  # type: ignore[arg-type]
    assert (session["namespace"], session["server"]) == ("shop", "https://s")
    assert (await door.ask("/api/v1/pods", headers={"authorization": f"Bearer {session['token']}"})).status == 200
    assert [each.path for each in door.passed] == ["/api/v1/pods"]


async def test_without_the_token_nothing_is_passed_on(door: Door) -> None:
    await door.enter()
    for headers in ({}, {"authorization": "Bearer guess"}, {"cookie": "token=x"}):
        assert (await door.ask("/api/v1/pods", headers=headers)).status == 401
    assert door.passed == []


async def test_a_replayed_code_is_refused_and_told_in_the_terminal(door: Door) -> None:
    code = door.code()
    assert (await door.exchange(code)).status == 200
    assert (await door.exchange(code)).status == 410
    assert "a used code was tried" in door.warned[0]


async def test_a_code_is_good_for_a_minute(door: Door) -> None:
    code = door.code()
    door.clock.advance(CODE_SECONDS + 1)
    assert (await door.exchange(code)).status == 410


async def test_a_new_code_ends_the_one_before(door: Door) -> None:
    first, _ = door.code(), door.code()
    assert (await door.exchange(first)).status == 401


@pytest.mark.parametrize("host", ["evil.example:6480", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.evil.example:6480", ""])
async def test_a_name_that_is_pointed_at_this_computer_gets_nothing(door: Door, host: str) -> None:
    token = await door.enter()
    headers = {"host": host, "authorization": f"Bearer {token}"}
    for path in ("/api/v1/pods", "/dashboard/"):
        assert (await door.ask(path, headers=headers)).status == 403
    assert (await door.exchange(door.code(), host=host)).status == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:6481", "null", f"https://{HERE}"])
async def test_another_page_gets_nothing_also_from_another_port_of_this_computer(door: Door, origin: str) -> None:
    token = await door.enter()
    headers = {"origin": origin, "authorization": f"Bearer {token}"}
    assert (await door.ask("/api/v1/pods", headers=headers)).status == 403
    assert (await door.exchange(door.code(), origin=origin)).status == 403
    assert door.passed == []


async def test_the_page_itself_may_ask(door: Door) -> None:
    token = await door.enter()
    for origin in (f"http://{HERE}", "http://localhost:6480"):
        headers = {"origin": origin, "authorization": f"Bearer {token}"}
        assert (await door.ask("/apis", headers=headers)).status == 200


async def test_a_websocket_shows_the_token_as_a_subprotocol_which_goes_no_further(door: Door) -> None:
    token = await door.enter()
    shown = BEARER + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    headers = {"upgrade": "websocket", "sec-websocket-protocol": f"{shown}, v5.channel.k8s.io"}
    assert (await door.ask("/api/v1/pods", headers=headers)).status == 200
    assert door.passed[0].headers["sec-websocket-protocol"] == "v5.channel.k8s.io"
    for wrong in ("v5.channel.k8s.io", shown, f"{BEARER}!!, x", f"{shown}, {shown}, x"):
        assert (await door.ask("/api/v1/pods", headers={**headers, "sec-websocket-protocol": wrong})).status == 401


@pytest.mark.parametrize("path", ["/", "/metrics", "/apisomething", "/openapi/v2", "/tarmac/v1/ca", "/logs"])
async def test_only_the_api_is_passed_on(door: Door, path: str) -> None:
    token = await door.enter()
    assert (await door.ask(path, headers={"authorization": f"Bearer {token}"})).status == 404
    assert door.passed == []


async def test_the_sign_of_life_of_the_server_is_asked_through_the_relay(door: Door) -> None:
    assert (await door.ask("/livez")).status == 401
    token = await door.enter()
    assert (await door.ask("/livez", headers={"authorization": f"Bearer {token}"})).status == 200
    assert [each.path for each in door.passed] == ["/livez"]


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"code": 1}', b'{"code": "x", "more": 1}', b"\xff"])
async def test_a_body_that_is_no_code_is_refused_with_what_would_be(door: Door, body: bytes) -> None:
    answer = await door.ask("/dashboard/session", "POST", body)
    assert answer.status == 400
    assert b"code" in bytes(answer.body)  # type: ignore[arg-type]


async def test_people_get_a_page_that_says_what_to_do(door: Door) -> None:
    answer = await door.ask("/api/v1/pods", headers={"accept": "text/html,*/*"})
    assert (answer.status, answer.content_type) == (401, "text/html; charset=utf-8")
    assert b"Press Enter" in bytes(answer.body)  # type: ignore[arg-type]
