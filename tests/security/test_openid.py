"""Tokens of an OpenID Connect issuer: accepted ones, rejected ones, and the effects of an issuer that misbehaves."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.repositories import TOKENS_PATH
from tarmac.api.status import Unauthorized
from tarmac.apps.authentication import authentication_of
from tarmac.apps.commands import parsed
from tarmac.base.clock import ManualClock
from tarmac.http.messages import Request
from tarmac.server.security.authentication.authenticate import Authenticator
from tarmac.server.security.authentication.openid import fetching
from tarmac.server.security.authentication.openid.issuers import Issuers
from tarmac.server.security.authentication.openid.keys import MIN_FETCH_INTERVAL
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.reviews import Reviews
from tarmac.server.security.tokens.jwt import SigningKey
from tarmac.server.security.tokens.serviceaccounts import ISSUER, ServiceAccountTokens
from tarmac.server.security.users import User
from tarmac.store.memory import MemoryStore
from tests.support.openid import OTHER_RSA_KEY, RSA_KEY, FakeIssuer, fake_issuer, jwk, signed
from tests.support.openidcases import CASES, ELLIPTIC, EMAIL_CASES, Case, flags

HD: dict[str, Any] = {"hd": "example.com"}


class Door:
    """The authenticator of a server that trusts the issuer, under a manual clock."""

    def __init__(self, issuer: FakeIssuer, ca_file: Path, pki: Pki, store: MemoryStore) -> None:
        self.issuer, self.ca_file = issuer, ca_file
        self.clock = ManualClock(time.time())
        self.issuers = Issuers(store, self.clock)
        key = SigningKey(pki.token_key_file.read_bytes())
        self.tokens = ServiceAccountTokens(store, key, self.clock)
        authorizer = Authorizer(store)
        self.authenticator = Authenticator(store, self.tokens, authorizer, self.clock, self.issuers)
        self.reviews = Reviews(self.authenticator, authorizer, self.clock, lambda _name, _not_before: False)

    async def open(self, claim: str = "sub") -> Door:
        """Start, as the server does: the first fetch runs in the background."""
        options = parsed(["server", *flags(self.issuer, str(self.ca_file), claim)])
        await self.issuers.use(authentication_of(options).issuers)
        return self

    def ask(self, token: str) -> User | Awaitable[User]:
        return self.authenticator.authenticate(Request("GET", "/", headers={"authorization": f"Bearer {token}"}))

    async def enter(self, token: str) -> User:
        user = self.ask(token)
        return user if isinstance(user, User) else await user

    async def refused(self, token: str) -> None:
        with pytest.raises(Unauthorized):
            await self.enter(token)

    async def review(self, token: str, *audiences: str) -> dict[str, Any]:
        review = {"spec": {"token": token, "audiences": list(audiences)}}
        answer = self.reviews.answer("tokenreviews", User("root"), "", review)
        return (answer if isinstance(answer, dict) else await answer)["status"]

    async def why(self, token: str) -> str:
        status = await self.review(token)
        assert not status.get("authenticated")
        return status["error"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FakeIssuer, Path]]:
    folder = tmp_path_factory.mktemp("issuer")
    with fake_issuer(folder) as issuer:
        yield issuer, folder / "ca.crt"


@pytest.fixture
async def door(served: tuple[FakeIssuer, Path], pki_directory: Path) -> AsyncIterator[Door]:
    issuer, ca_file = served
    issuer.__init__(issuer.ca, int(issuer.url.rpartition(":")[2]))
    issuer.keys.update(ELLIPTIC)
    store = MemoryStore()
    await store.start()
    made = Door(issuer, ca_file, Pki(pki_directory, ManualClock()), store)
    yield made
    await made.issuers.close()
    await store.close()


async def check(door: Door, case: Case) -> None:
    token = case.make(door.issuer)
    status = await door.review(token)
    if case.user is None:
        assert not status.get("authenticated"), case.name
        await door.refused(token)
        return
    wanted = case.user.replace("ISSUER", door.issuer.url)
    assert status.get("user", {}).get("username") == wanted, (case.name, status)
    user = await door.enter(token)
    assert (user.name, user.groups) == (wanted, (*case.groups, "system:authenticated")), case.name
    assert {key: list(value) for key, value in user.extra.items()} == case.extra
    assert door.ask(token) is user, "a token that was valid once is cached"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_token_is_taken_or_refused(door: Door, case: Case) -> None:
    await check(await door.open(), case)


@pytest.mark.parametrize("case", EMAIL_CASES, ids=lambda case: case.name)
async def test_people_by_their_address(door: Door, case: Case) -> None:
    await check(await door.open("email"), case)


async def test_a_token_ends_when_it_says_so_though_it_was_good_before(door: Door) -> None:
    token = (await door.open()).issuer.token(**HD)
    await door.enter(token)
    door.clock.advance(601)
    await door.refused(token)


async def test_tokens_of_ours_are_ours_whatever_issuers_there_are(door: Door) -> None:
    await door.open()
    forged = signed({"alg": "RS256", "kid": "one"}, door.issuer.claims(iss=ISSUER, **HD), RSA_KEY)
    assert await door.why(forged) == "invalid bearer token"
    assert door.issuer.asked.get("/keys", 0) <= 1, "a token of another issuer causes no request"


async def test_a_review_says_why_and_a_request_does_not(door: Door) -> None:
    await door.open()
    assert "expired" in await door.why(door.issuer.token(exp=1, **HD))
    assert "expected audience" in await door.why(door.issuer.token(aud="other", **HD))
    assert "hd not present" in await door.why(door.issuer.token())
    with pytest.raises(Unauthorized) as refused:
        await door.enter(door.issuer.token(exp=1, **HD))
    assert refused.value.message == "Unauthorized"


async def test_a_review_for_others_is_refused_as_the_token_is_meant_for_this_server(door: Door) -> None:
    token = (await door.open()).issuer.token(**HD)
    assert (await door.review(token))["audiences"] == [ISSUER]
    assert (await door.review(token, "vault", ISSUER))["audiences"] == [ISSUER]
    assert not (await door.review(token, "vault")).get("authenticated")


async def test_a_new_key_is_fetched_when_a_token_shows_it(door: Door) -> None:
    await door.open()
    await door.enter(door.issuer.token(**HD))
    door.issuer.keys["two"] = OTHER_RSA_KEY
    del door.issuer.keys["one"]
    new = door.issuer.token({"kid": "two"}, OTHER_RSA_KEY, **HD)
    await door.refused(new)  # there was a fetch a moment ago
    door.clock.advance(MIN_FETCH_INTERVAL)
    assert (await door.enter(new)).name == f"{door.issuer.url}#jane"
    door.clock.advance(MIN_FETCH_INTERVAL)
    await door.refused(door.issuer.token(sub="joe", **HD))  # signed with a retired key


async def test_there_is_one_fetch_at_a_time_and_one_in_ten_seconds(door: Door) -> None:
    await door.open()
    await door.enter(door.issuer.token(**HD))
    door.clock.advance(MIN_FETCH_INTERVAL)
    strange = [door.issuer.token({"kid": f"k{number}"}, OTHER_RSA_KEY, **HD) for number in range(50)]
    await asyncio.gather(*(door.refused(token) for token in strange))
    await asyncio.gather(*(door.refused(token) for token in strange))
    assert door.issuer.asked["/keys"] == 2


async def test_a_client_that_goes_away_does_not_take_the_fetch_from_the_others(door: Door) -> None:
    door.issuer.stay_silent(600)
    await door.open()
    first, second = (asyncio.ensure_future(door.enter(door.issuer.token(sub=name, **HD))) for name in ("a", "b"))
    await asyncio.sleep(0.05)
    first.cancel()
    door.issuer.stay_silent(0)
    assert (await second).name.endswith("#b")
    assert first.cancelled()


async def test_an_issuer_that_is_down_at_the_start_keeps_out_its_own_people_only(door: Door) -> None:
    door.issuer.up = False
    await door.open()
    token = door.issuer.token(**HD)
    await door.refused(token)
    assert isinstance(door.authenticator.authenticate(Request("GET", "/")), User)
    door.issuer.up = True
    await door.refused(token)
    door.clock.advance(MIN_FETCH_INTERVAL)
    assert (await door.enter(token)).name.endswith("#jane")


async def test_an_issuer_that_goes_down_later_keeps_the_keys_it_showed(door: Door) -> None:
    await door.open()
    await door.enter(door.issuer.token(**HD))
    door.issuer.up = False
    door.clock.advance(MIN_FETCH_INTERVAL)
    await door.refused(door.issuer.token({"kid": "two"}, OTHER_RSA_KEY, **HD))
    assert (await door.enter(door.issuer.token(sub="joe", **HD))).name.endswith("#joe")


async def test_a_slow_issuer_keeps_nobody_else_waiting(door: Door) -> None:
    await door.open()
    await door.enter(door.issuer.token(**HD))
    door.issuer.stay_silent(600)
    door.clock.advance(MIN_FETCH_INTERVAL)
    waiting = door.ask(door.issuer.token({"kid": "two"}, OTHER_RSA_KEY, **HD))
    assert not isinstance(waiting, User)
    late = asyncio.ensure_future(waiting)
    await asyncio.sleep(0.05)
    for name in ("joe", "jim"):
        assert isinstance(door.ask(door.issuer.token(sub=name, **HD)), User), "answered at once"
    assert not late.done()
    door.issuer.stay_silent(0)
    with pytest.raises(Unauthorized):
        await late


async def test_at_the_registry_a_token_counts_as_long_as_its_issuer_does(door: Door) -> None:
    await door.open()
    password = base64.b64encode(f"jane:{door.issuer.token(**HD)}".encode()).decode()
    request = Request("GET", TOKENS_PATH, headers={"authorization": f"Basic {password}"})
    found = door.authenticator.authenticate(request)
    assert (found if isinstance(found, User) else await found).name.endswith("#jane")
    assert door.authenticator.at_once(request).name.endswith("#jane")
    await door.issuers.use(())
    with pytest.raises(Unauthorized):
        door.authenticator.at_once(request)


async def test_a_body_on_the_way_does_not_wait_for_keys(door: Door) -> None:
    await door.open()
    request = Request("POST", "/", headers={"authorization": f"Bearer {door.issuer.token(**HD)}"})
    assert not door.authenticator.recognises(request)
    await door.enter(door.issuer.token(**HD))
    assert door.authenticator.recognises(request)


def _document(**changed: Any) -> Callable[[FakeIssuer], bytes]:
    return lambda issuer: json.dumps({"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys", **changed}).encode()


HOSTILE: dict[str, Callable[[FakeIssuer], bytes]] = {
    "too large": _document(filling="x" * (2 << 20)),
    "no JSON": lambda _: b"<html>",
    "no text": lambda _: b'{"issuer": "\xff"}',
    "deep": lambda _: b'{"issuer": ' + b"[" * 200_000,
    "another issuer": _document(issuer="https://elsewhere.example"),
    "keys in the clear": _document(jwks_uri="http://127.0.0.1/keys"),
    "keys from a file": _document(jwks_uri="file:///etc/passwd"),
    "keys at no host": _document(jwks_uri="https:///keys"),
    "keys at a port that is none": _document(jwks_uri="https://127.0.0.1:99999/keys"),
    "a request within the address": _document(jwks_uri="https://127.0.0.1/keys HTTP/1.1\r\nX: y"),
    "keys elsewhere": _document(jwks_uri=7),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_discovery_document_that_cannot_be_used_lets_nobody_in(door: Door, name: str) -> None:
    door.issuer.discovery = lambda: HOSTILE[name](door.issuer)
    await door.open()
    await door.refused(door.issuer.token(**HD))
    door.issuer.discovery = door.issuer._discovery
    door.clock.advance(MIN_FETCH_INTERVAL)
    await door.enter(door.issuer.token(**HD))


def _keys(*keys: Any) -> Callable[[], bytes]:
    return lambda: json.dumps({"keys": list(keys)}).encode()


GOOD = jwk("one", RSA_KEY)


@pytest.mark.parametrize(
    "key_set",
    [_keys(*[GOOD] * 101), _keys(), lambda: b"[]", lambda: b'{"keys": 1}', _keys({**GOOD, "use": "enc"})],
    ids=["too many", "none", "a list", "a number", "for encryption"],
)
async def test_a_key_set_that_cannot_be_used_lets_nobody_in(door: Door, key_set: Callable[[], bytes]) -> None:
    door.issuer.key_set = key_set
    await door.open()
    await door.refused(door.issuer.token(**HD))


async def test_keys_that_make_no_sense_do_not_take_the_others_away(door: Door) -> None:
    large = {"kty": "RSA", "kid": "one", "e": "AQAB", "n": "_" * 20_000}
    strange = [
        1,
        {},
        {"kty": "oct", "k": "AAAA"},
        {**GOOD, "n": 7},
        {**GOOD, "n": "AQ"},
        {**GOOD, "e": "_" * 20},
        large,
    ]
    elliptic = jwk("es", ELLIPTIC["es256"])
    door.issuer.key_set = _keys(*strange, {**elliptic, "x": elliptic["y"]}, {**elliptic, "crv": "P-1"}, GOOD)
    await door.open()
    await door.enter(door.issuer.token(**HD))


async def test_an_issuer_that_never_finishes_is_given_up(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "FETCH_TIMEOUT", 0.2)
    door.issuer.stay_silent(600)
    await door.open()
    async with asyncio.timeout(20):
        await door.refused(door.issuer.token(**HD))
    door.issuer.stay_silent(0)


async def test_an_issuer_under_another_authority_is_not_believed(door: Door, tmp_path: Path) -> None:
    with fake_issuer(tmp_path) as other:
        door.ca_file = tmp_path / "ca.crt"
        assert other.ca != door.issuer.ca
        await door.open()
        await door.refused(door.issuer.token(**HD))
        assert not door.issuer.asked


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--oidc-issuer-url=https://a.example"], "belong together"),
        (["--oidc-client-id=x"], "belong together"),
        (["--oidc-issuer-url=http://a.example", "--oidc-client-id=x"], "must be https"),
        (["--oidc-issuer-url=https://u:p@a.example", "--oidc-client-id=x"], "no user name"),
        (["--oidc-issuer-url=https://a.example?x=y", "--oidc-client-id=x"], "no query"),
        (["--oidc-issuer-url=https://a.example:x", "--oidc-client-id=x"], "is no URL"),
        ([f"--oidc-issuer-url={ISSUER}", "--oidc-client-id=x"], "issues the tokens of service accounts"),
        (["--oidc-issuer-url=https://a.example", "--oidc-client-id=x", "--oidc-signing-algs=HS256"], "not HS256"),
    ],
)
def test_flags_that_make_no_sense_end_the_start(words: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        authentication_of(parsed(["server", *words]))


def test_a_file_that_is_no_authority_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    words = ["--oidc-issuer-url=https://a.example", "--oidc-client-id=x", f"--oidc-ca-file={tmp_path / 'ca'}"]
    with pytest.raises(ValueError, match="authority cannot be read"):
        authentication_of(parsed(["server", *words]))
