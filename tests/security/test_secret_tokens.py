"""Tokens stored in Secrets: valid with exactly their Secret and their account."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tarmac.api.identities import TokenHolder
from tarmac.api.status import Forbidden, Unauthorized
from tarmac.apps.control_plane import local_transport
from tarmac.base.clock import SystemClock, rfc3339
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.targets.untyped import PODS, SERVICE_ACCOUNTS
from tarmac.client.targets.untyped import SECRETS as SECRET_OBJECTS
from tarmac.server.security.credentials import Credential
from tarmac.server.security.tokens import secrettokens
from tarmac.server.security.tokens.jwt import InvalidToken, SigningKey
from tarmac.server.security.tokens.serviceaccounts import ServiceAccountTokens
from tarmac.server.security.tokens.tokenuses import LAST_USED, TokenUses
from tests.client.backends import ADMIN, our_server
from tests.security.conftest import World
from tests.security.test_authentication import account, authenticate

HOLDER = TokenHolder("team", "app", "account-uid", "app-token", "secret-uid")
ACCOUNTS, SECRETS = "core/serviceaccounts", "core/secrets"


def secret(token: str, uid: str = "secret-uid", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "app-token", "namespace": "team", "uid": uid, **metadata},
        "type": "kubernetes.io/service-account-token",
        "data": {"token": base64.b64encode(token.encode()).decode()},
    }


@pytest.fixture
async def token(world: World) -> str:
    await account(world)
    made = secrettokens.sign(world.tokens.keys, world.randomness, HOLDER)
    await world.put(SECRETS, secret(made))
    return made


def refused(world: World, token: str) -> str:
    """Return the reason that a review reports; responses of requests contain none."""
    with pytest.raises(Unauthorized):
        authenticate(world, token)
    with pytest.raises(InvalidToken) as why:
        world.authenticator.review(token, ())
    return str(why.value)


async def test_a_token_is_its_account_without_end(world: World, token: str) -> None:
    app = authenticate(world, token)
    assert (app.name, app.uid) == ("system:serviceaccount:team:app", "account-uid")
    assert app.groups == ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated")
    assert app.extra == {}
    world.clock.advance(20 * 365 * 24 * 3600)
    assert authenticate(world, token) is app


async def test_it_is_meant_for_this_server_alone(world: World, token: str) -> None:
    found = world.authenticator.review(token, ())
    assert isinstance(found, Credential)
    assert found.audiences == world.tokens.audiences
    with pytest.raises(InvalidToken, match="is invalid for the target audiences"):
        world.authenticator.review(token, ("vault",))


async def test_it_ends_with_its_secret_also_when_it_is_on_its_way_out(world: World, token: str) -> None:
    authenticate(world, token)
    await world.put(SECRETS, secret(token, deletionTimestamp="2026-11-15T12:00:00Z"))
    assert refused(world, token) == "Token has been invalidated"
    await world.delete(SECRETS, "team/app-token")
    assert refused(world, token) == "Token has been invalidated"


async def test_a_new_secret_of_the_same_name_does_not_bring_it_back(world: World, token: str) -> None:
    """A user who may write Secrets must not restore a token that was ended by deleting its Secret."""
    authenticate(world, token)
    await world.delete(SECRETS, "team/app-token")
    await world.put(SECRETS, secret(token, uid="another-uid"))
    assert refused(world, token) == "Token has been invalidated"


async def test_it_ends_when_its_secret_holds_another(world: World, token: str) -> None:
    authenticate(world, token)
    for other in (secrettokens.sign(world.tokens.keys, world.randomness, HOLDER), "", token[:-1]):
        await world.put(SECRETS, secret(other))
        assert refused(world, token) == "Token does not match server's copy"
    await world.put(SECRETS, {**secret(token), "data": {"token": "not base64!"}})
    assert refused(world, token) == "Token does not match server's copy"


async def test_it_ends_with_its_account_and_does_not_come_back_with_another(world: World, token: str) -> None:
    authenticate(world, token)
    metadata = {"name": "app", "namespace": "team", "uid": "account-uid"}
    await world.put(ACCOUNTS, {"metadata": {**metadata, "deletionTimestamp": "2026-11-15T12:00:00Z"}})
    assert refused(world, token) == "ServiceAccount team/app has been deleted"
    await world.delete(ACCOUNTS, "team/app")
    assert refused(world, token) == 'serviceaccounts "app" not found'
    await account(world, uid="another-uid")
    assert refused(world, token) == "ServiceAccount UID (another-uid) does not match claim (account-uid)"


async def test_a_key_that_signs_alike_makes_another_token_each_time(world: World) -> None:
    """Deleting a leaked token from its Secret must end it, also where signatures have no randomness of their own."""
    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    key = SigningKey(pem)
    assert len({secrettokens.sign(key, world.randomness, HOLDER) for _ in range(3)}) == 3


async def test_one_that_is_marked_invalid_is(world: World, token: str) -> None:
    await world.put(SECRETS, secret(token, labels={"kubernetes.io/legacy-token-invalid-since": "2026-11-15"}))
    assert "has been marked invalid" in refused(world, token)


@pytest.mark.parametrize(
    "claim", ["namespace", "secret.name", "secret.uid", "service-account.name", "service-account.uid"]
)
@pytest.mark.parametrize("value", [None, "", 7, "other"])
async def test_one_that_says_less_or_something_else_is_refused(
    world: World, token: str, claim: str, value: Any
) -> None:
    claims = world.tokens.keys.verify(token)
    odd = world.tokens.keys.sign({**claims, f"kubernetes.io/serviceaccount/{claim}": value})
    await world.put(SECRETS, secret(odd))
    refused(world, odd)


async def test_the_subject_must_be_the_account(world: World, token: str) -> None:
    claims = {**world.tokens.keys.verify(token), "sub": "system:serviceaccount:kube-system:admin"}
    odd = world.tokens.keys.sign(claims)
    await world.put(SECRETS, secret(odd))
    assert refused(world, odd) == "sub claim is invalid"


async def test_a_short_lived_token_in_such_a_secret_still_ends(world: World, token: str) -> None:
    """A token of the usual kind does not become one without end by being put into a Secret."""
    usual = world.issuer.issue("team", "app", {"spec": {"expirationSeconds": 600}})["status"]["token"]
    await world.put(SECRETS, secret(usual))
    authenticate(world, usual)
    world.clock.advance(700)
    refused(world, usual)


async def filled_secret(admin: Client) -> tuple[dict[str, Any], str]:
    """An account's Secret that the controller has filled, and its token."""
    secrets = admin.resource(SECRET_OBJECTS)
    await admin.resource(SERVICE_ACCOUNTS).create({"metadata": {"name": "app", "namespace": "default"}})
    annotations = {"kubernetes.io/service-account.name": "app"}
    metadata = {"name": "app-token", "namespace": "default", "annotations": annotations}
    made = await secrets.create({"metadata": metadata, "type": "kubernetes.io/service-account-token"})
    version = made["metadata"]["resourceVersion"]
    async with secrets.watch("default", resource_version=version, fields="metadata.name=app-token") as changes:
        filled = json.loads((await anext(aiter(changes))).raw)
    return filled, base64.b64decode(filled["data"]["token"]).decode()


async def test_over_the_wire_it_is_refused_from_the_moment_its_secret_is_gone(tmp_path: Path) -> None:
    async with our_server(tmp_path) as running, asyncio.timeout(30):
        admin = Client(local_transport(running.server, ADMIN))
        secrets = admin.resource(SECRET_OBJECTS)
        _, token = await filled_secret(admin)
        ca = (tmp_path / "pki" / "ca.crt").read_text()
        thief = Client(HttpTransport(HttpConfig(running.url, ca=ca, token=token)))
        with pytest.raises(Forbidden, match='User "system:serviceaccount:default:app" cannot list'):
            await thief.resource(PODS).list("default")
        await secrets.delete("app-token", "default")
        with pytest.raises(Unauthorized):
            await thief.resource(PODS).list("default")
        await thief.close()


async def test_a_use_is_noted_once_a_day_and_again_when_nobody_wrote_it_down(world: World, token: str) -> None:
    uses = TokenUses(world.clock)
    tokens = ServiceAccountTokens(
        world.store, SigningKey(world.pki.token_key_file.read_bytes()), world.clock, uses=uses
    )
    now = world.clock.now()
    assert tokens.recognise(token).expires == now + 10
    tokens.recognise(token)
    today = rfc3339(now)[:10]
    assert await uses.next() == (HOLDER, today)
    for day in (today, rfc3339(now + 24 * 3600)[:10]):  # by a server whose clock is ahead
        await world.put(SECRETS, secret(token, labels={LAST_USED: day}))
        assert rfc3339(tokens.recognise(token).expires)[10:] == "T00:00:00Z"
    world.clock.advance(2 * 24 * 3600)
    tokens.recognise(token)
    assert await uses.next() == (HOLDER, rfc3339(world.clock.now())[:10])


async def test_a_secret_says_on_which_day_its_token_was_used_last(tmp_path: Path) -> None:
    async with our_server(tmp_path) as running, asyncio.timeout(30):
        admin = Client(local_transport(running.server, ADMIN))
        secrets = admin.resource(SECRET_OBJECTS)
        made, token = await filled_secret(admin)
        user = Client(HttpTransport(HttpConfig(running.url, ca=(tmp_path / "pki" / "ca.crt").read_text(), token=token)))
        version = made["metadata"]["resourceVersion"]
        with pytest.raises(Forbidden):
            await user.resource(PODS).list("default")
        async with secrets.watch("default", resource_version=version, fields="metadata.name=app-token") as changes:
            labels = json.loads((await anext(aiter(changes))).raw)["metadata"]["labels"]
        assert labels == {LAST_USED: rfc3339(SystemClock().now())[:10]}
        with pytest.raises(Forbidden):  # the token still authenticates
            await user.resource(PODS).list("default")
        await user.close()
