"""The `token` subresource of service accounts, and the keys by which clients verify tokens."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tarmac.api.status import ApiError, BadRequest, Conflict, Invalid, NotFound
from tarmac.http.messages import Request, Response
from tarmac.server.security.tokens.jwt import InvalidToken, SigningKey
from tests.security.conftest import World


@pytest.fixture
async def account(world: World) -> World:
    await world.put("core/serviceaccounts", {"metadata": {"name": "app", "namespace": "team", "uid": "sa-uid"}})
    return world


def body(answer: Response) -> bytes:
    assert isinstance(answer.body, bytes)
    return answer.body


def claims(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


async def test_the_answer_is_the_request_filled_in(account: World) -> None:
    answer = account.issuer.issue("team", "app", {"kind": "TokenRequest", "spec": {"expirationSeconds": 3600}})
    now = int(account.clock.now())
    assert answer["metadata"]["name"] == "app"
    assert answer["metadata"]["uid"] == "sa-uid"
    assert answer["spec"]["audiences"] == ["https://kubernetes.default.svc"]
    assert answer["status"]["expirationTimestamp"].endswith("Z")
    inside = claims(answer["status"]["token"])
    assert (inside["iat"], inside["exp"], inside["nbf"]) == (now, now + 3600, now)
    assert inside["iss"] == "https://kubernetes.default.svc"
    assert inside["kubernetes.io"] == {"namespace": "team", "serviceaccount": {"name": "app", "uid": "sa-uid"}}


async def test_a_request_that_leaves_everything_open_gets_an_hour(account: World) -> None:
    wanted = {"metadata": None, "spec": {"audiences": None, "expirationSeconds": None, "boundObjectRef": None}}
    inside = claims(account.issuer.issue("team", "app", wanted)["status"]["token"])
    assert inside["exp"] - inside["iat"] == 3600


async def test_a_token_for_a_pod_tells_its_node(account: World) -> None:
    await account.put("core/nodes", {"metadata": {"name": "n1", "uid": "n-uid"}})
    spec = {"serviceAccountName": "app", "nodeName": "n1"}
    await account.put("core/pods", {"metadata": {"name": "web", "namespace": "team", "uid": "p-uid"}, "spec": spec})
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "web"}
    answer = account.issuer.issue("team", "app", {"spec": {"boundObjectRef": reference}})
    inside = claims(answer["status"]["token"])["kubernetes.io"]
    assert (inside["pod"], inside["node"]) == ({"name": "web", "uid": "p-uid"}, {"name": "n1", "uid": "n-uid"})


@pytest.mark.parametrize(
    ("request_", "error", "text"),
    [
        ({"spec": {"expirationSeconds": 599}}, Invalid, "may not specify a duration less than 10 minutes"),
        ({"spec": {"expirationSeconds": 1 << 33}}, Invalid, "may not specify a duration larger than 2^32 seconds"),
        ({"metadata": {"name": "other"}}, Invalid, "must match the service account name if specified"),
        ({"metadata": {"namespace": "other"}}, BadRequest, "does not match the namespace sent on the request"),
        ({"spec": {"boundObjectRef": {}}}, BadRequest, "cannot bind token to object of type /, Kind="),
        ({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod"}}}, BadRequest, "Name parameter required"),
        ({"metadata": {"uid": "other"}}, Conflict, "does not match the UID of the service account (sa-uid)"),
        ({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}}}, BadRequest, "ConfigMap"),
        (
            {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "x"}}},
            NotFound,
            'pods "x" not found',
        ),
    ],
)
async def test_bad_requests_are_refused(account: World, request_: Any, error: type[ApiError], text: str) -> None:
    with pytest.raises(error) as refused:
        account.issuer.issue("team", "app", request_)
    assert text in refused.value.message


async def test_a_pod_of_another_account_cannot_be_bound(account: World) -> None:
    spec = {"serviceAccountName": "other"}
    await account.put("core/pods", {"metadata": {"name": "web", "namespace": "team", "uid": "u"}, "spec": spec})
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "web"}
    with pytest.raises(BadRequest, match="different serviceaccount name"):
        account.issuer.issue("team", "app", {"spec": {"boundObjectRef": reference}})


async def test_a_recreated_object_is_noticed(account: World) -> None:
    await account.put("core/secrets", {"metadata": {"name": "s", "namespace": "team", "uid": "new"}})
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "old"}
    with pytest.raises(Conflict, match="deleted and then recreated"):
        account.issuer.issue("team", "app", {"spec": {"boundObjectRef": reference}})


async def test_there_must_be_an_account(world: World) -> None:
    with pytest.raises(NotFound):
        world.issuer.issue("team", "nobody", {})


async def test_the_public_key_is_published(world: World) -> None:
    documents = world.tokens.documents()
    request = Request("GET", "/", headers={"host": "127.0.0.1:6443"})
    discovery = json.loads(body(documents["/.well-known/openid-configuration"](request)))
    assert discovery["jwks_uri"] == "https://127.0.0.1:6443/openid/v1/jwks"
    assert discovery["issuer"] == "https://kubernetes.default.svc"
    answer = documents["/openid/v1/jwks"](request)
    assert answer.content_type == "application/jwk-set+json"
    [key] = json.loads(body(answer))["keys"]
    assert (key["kty"], key["crv"], key["alg"], key["use"]) == ("EC", "P-256", "ES256", "sig")


def rsa_pem() -> bytes:
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def test_rsa_keys_sign_too() -> None:
    key = SigningKey(rsa_pem())
    token = key.sign({"sub": "x"})
    assert key.verify(token) == {"sub": "x"}
    assert key.public_jwk()["kty"] == "RSA"
    with pytest.raises(InvalidToken):
        SigningKey(rsa_pem()).verify(token)


def test_a_token_cannot_choose_its_algorithm(world: World) -> None:
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    payload = base64.urlsafe_b64encode(b'{"iss":"https://kubernetes.default.svc"}').rstrip(b"=").decode()
    with pytest.raises(InvalidToken):
        world.tokens.keys.verify(f"{header}.{payload}.")
