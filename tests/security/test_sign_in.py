"""The server redeems codes of users who sign in to the dashboard: for the browser that began, with a verified token."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tarmac.apps.authentication import authentication_of
from tarmac.apps.commands import parsed
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.dashboard.files import DashboardFiles
from tarmac.dashboard.signin import SignIn
from tarmac.http.messages import Request, Response
from tarmac.server.security.authentication.openid.issuers import Issuers
from tarmac.store.memory import MemoryStore
from tests.support.openidcases import flags
from tests.support.openidprovider import Provider, provider

BACK = "https://tarmac.example/dashboard/"
VERIFIER, NONCE = "v" * 43, "n" * 43


class Door:
    """The page of a server that trusts a provider."""

    def __init__(self, at: Provider, folder: Path) -> None:
        self.provider = at
        self.issuers = Issuers(MemoryStore(), SystemClock())
        self.page = DashboardFiles(Randomness(), folder, SignIn(self.issuers, SystemClock()).answer)

    async def ask(self, method: str = "GET", body: bytes = b"", **headers: str) -> Response:
        answer = self.page.answer(
            Request(method, "/dashboard/sign-in", "", {"host": "tarmac.example", **headers}, body)
        )
        return answer if isinstance(answer, Response) else await answer

    async def providers(self) -> list[dict[str, Any]]:
        return decoded(await self.ask())["providers"]

    def code(self) -> str:
        """Sign in at the provider, as a browser; return the code."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
        asked = {"state": "s", "nonce": NONCE, "code_challenge": challenge, "redirect_uri": BACK}
        page = self.provider.issuer.pages("GET", f"/authorize?{urlencode(asked)}", {}, b"")
        assert page is not None
        return page[2].decode().partition("code=")[2].partition('"')[0]

    async def redeem(self, **changed: str) -> Response:
        usual = {"issuer": self.provider.issuer.url, "verifier": VERIFIER, "nonce": NONCE, "redirectUri": BACK}
        body = {**usual, "code": changed.get("code") or self.code(), **changed}
        return await self.ask("POST", json.dumps(body).encode())


def decoded(answer: Response) -> dict[str, Any]:
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


@asynccontextmanager
async def door(folder: Path, secret: str = "") -> AsyncGenerator[Door]:
    with provider(folder, secret) as at:
        made = Door(at, folder)
        given = flags(at.issuer, str(folder / "ca.crt"))
        if secret:
            (folder / "secret").write_text(secret + "\n")
            given = (*given, f"--oidc-client-secret-file={folder / 'secret'}")
        await made.issuers.use(authentication_of(parsed(["server", *given])).issuers)
        for issuer in made.issuers:
            await issuer.keys.begin()
        try:
            yield made
        finally:
            await made.issuers.close()


@pytest.mark.parametrize("secret", ["", "p:w %"])
async def test_a_code_becomes_an_id_token_and_no_other_token(tmp_path: Path, secret: str) -> None:
    async with door(tmp_path, secret) as opened:
        if secret:
            opened.provider.secret = "p%3Aw+%25"  # RFC 6749, section 2.3.1: encoded before Basic
        [shown] = await opened.providers()
        assert shown["clientId"] == "tarmac"
        assert shown["scope"] == "openid email"
        assert shown["authorizationEndpoint"] == f"{opened.provider.issuer.url}/authorize"
        assert "secret" not in json.dumps(shown).lower()
        answer = await opened.redeem()
        found = decoded(answer)
        assert answer.status == 200, found
        assert set(found) == {"token", "seconds"}
        assert found["token"].count(".") == 2
        assert 500 < found["seconds"] <= 600
        assert ("Cache-Control", "no-store") in (answer.headers or [])


async def test_a_code_is_redeemed_once_and_by_the_browser_that_began(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        code = opened.code()
        stolen = await opened.redeem(code=code, verifier="w" * 43)
        assert stolen.status == 401
        assert "invalid_grant" in decoded(stolen)["message"]
        code = opened.code()
        assert (await opened.redeem(code=code)).status == 200
        assert (await opened.redeem(code=code)).status == 401


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda at: at.changed.update(iss="https://evil.example"), "does not accept this identity"),
        (lambda at: at.changed.update(aud="another"), "does not accept this identity"),
        (lambda at: at.changed.update(azp="another"), "does not accept this identity"),
        (lambda at: at.changed.update(nonce="of another browser"), "does not accept this identity"),
        (lambda at: at.changed.update(nonce=None), "does not accept this identity"),
        (lambda at: at.changed.update(nonce=5), "does not accept this identity"),
        (lambda at: at.changed.update(hd="other.example"), "does not accept this identity"),
        (lambda at: at.header.update(alg="none"), "does not accept this identity"),
        (lambda at: at.changed.update(nbf=int(time.time()) + 600), "does not accept this identity"),
        (lambda at: at.changed.update(exp=int(time.time()) - 1), "compare the clocks"),
    ],
)
async def test_a_token_that_is_not_for_this_browser_and_server_is_rejected(
    tmp_path: Path, spoil: Callable[[Provider], None], why: str
) -> None:
    async with door(tmp_path) as opened:
        spoil(opened.provider)
        answer = await opened.redeem()
        assert answer.status == 401
        assert why in decoded(answer)["message"]
        assert "token" not in decoded(answer)


async def test_a_provider_whose_clock_is_a_little_ahead_signs_users_in(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        opened.provider.changed.update(nbf=int(time.time()) + 30, iat=int(time.time()) + 30)
        assert (await opened.redeem()).status == 200


@pytest.mark.parametrize(
    "spoilt",
    [
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "http://127.0.0.1/authorize"},
        {"token_endpoint": "http://127.0.0.1/token"},
        {"token_endpoint": ["https://id.example"]},
        {"authorization_endpoint": None},
        {"code_challenge_methods_supported": ["plain"]},
        {"response_types_supported": ["id_token"]},
    ],
)
async def test_a_provider_without_safe_endpoints_is_not_offered(tmp_path: Path, spoilt: dict[str, Any]) -> None:
    with provider(tmp_path) as at:
        at.discovery = spoilt
        opened = Door(at, tmp_path)
        await opened.issuers.use(
            authentication_of(parsed(["server", *flags(at.issuer, str(tmp_path / "ca.crt"))])).issuers
        )
        try:
            for issuer in opened.issuers:
                await issuer.keys.begin()
            assert await opened.providers() == []
            assert (await opened.redeem()).status == 404
        finally:
            await opened.issuers.close()


async def test_requests_of_other_pages_and_of_other_forms_are_rejected(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        assert (await opened.ask("POST", b"{}", origin="https://evil.example")).status == 403
        assert (await opened.ask("POST", b"{}", origin="https://tarmac.example")).status == 400
        assert (await opened.ask("PUT")).status == 405
        assert (await opened.ask("POST", b"[" * 20_000)).status == 400
        assert (await opened.redeem(issuer="https://evil.example")).status == 404
        assert opened.provider.redeemed == 0


async def test_errors_of_a_hostile_provider_are_short(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        usual = opened.provider.issuer.pages
        broken = json.dumps({"error": "x", "error_description": "<b>" * 9000}).encode()
        opened.provider.issuer.pages = lambda method, target, headers, body: (
            (400, {}, broken) if method == "POST" else usual(method, target, headers, body)
        )
        answer = await opened.redeem()
        assert answer.status == 401
        assert len(decoded(answer)["message"]) < 500
        opened.provider.issuer.pages = lambda method, target, headers, body: (
            (302, {"Location": "https://127.0.0.1:1/"}, b"")
            if method == "POST"
            else usual(method, target, headers, body)
        )
        assert "answered 302" in decoded(await opened.redeem())["message"]
