"""Authentication: certificates, tokens, anonymous requests, and impersonation."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tarmac.api.status import BadRequest, Forbidden, Unauthorized
from tarmac.base.clock import rfc3339
from tarmac.http.messages import Request
from tarmac.server.security.certificates.issuing import KeyPair
from tarmac.server.security.users import ANONYMOUS, User
from tests.security.conftest import RBAC, World


def request(certificate: bytes | None = None, **headers: str) -> Request:
    lower = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request("GET", "/api/v1/pods", headers=lower, peer_certificate=certificate)


def der(pair: KeyPair) -> bytes:
    return x509.load_pem_x509_certificate(pair.certificate).public_bytes(Encoding.DER)


async def account(world: World, name: str = "app", namespace: str = "team", uid: str = "account-uid") -> None:
    await world.put("core/serviceaccounts", {"metadata": {"name": name, "namespace": namespace, "uid": uid}})


def issue(world: World, **spec: Any) -> str:
    return world.issuer.issue("team", "app", {"spec": spec})["status"]["token"]


def authenticate(world: World, token: str) -> User:
    return world.authenticator.at_once(request(authorization=f"Bearer {token}"))


async def test_without_credentials_a_request_is_anonymous(world: World) -> None:
    assert world.authenticator.at_once(request()) is ANONYMOUS
    assert world.authenticator.at_once(request(authorization="Basic Zm9v")) is ANONYMOUS


async def test_a_certificate_names_user_and_groups(world: World) -> None:
    certificate = der(world.pki.client("jane", ("developers", "testers")))
    jane = world.authenticator.at_once(request(certificate))
    assert (jane.name, jane.groups) == ("jane", ("developers", "testers", "system:authenticated"))
    assert jane.extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
    assert world.authenticator.at_once(request(certificate)) is jane


async def test_an_expired_certificate_is_nobody(world: World) -> None:
    certificate = der(world.pki.client("jane"))
    assert world.authenticator.at_once(request(certificate)).name == "jane"
    world.clock.advance(366 * 24 * 3600)
    assert world.authenticator.at_once(request(certificate)) is ANONYMOUS


@pytest.mark.parametrize("token", ["nonsense", "a.b", "a.b.c", "abcdef.0123456789abcdef", "e30.e30.AAAA"])
async def test_a_bad_token_is_refused(world: World, token: str) -> None:
    with pytest.raises(Unauthorized) as refused:
        authenticate(world, token)
    assert (refused.value.message, refused.value.http_code) == ("Unauthorized", 401)


async def test_a_service_account_token_is_its_account(world: World) -> None:
    await account(world)
    app = authenticate(world, issue(world))
    assert (app.name, app.uid) == ("system:serviceaccount:team:app", "account-uid")
    assert app.groups == ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated")
    assert app.extra["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")


async def test_a_token_that_was_changed_is_refused(world: World) -> None:
    await account(world)
    header, payload, signature = issue(world).split(".")
    claims = base64.urlsafe_b64decode(payload + "==").replace(b"team:app", b"team:root")
    forged = base64.urlsafe_b64encode(claims).rstrip(b"=").decode()
    with pytest.raises(Unauthorized):
        authenticate(world, f"{header}.{forged}.{signature}")


async def test_a_token_expires(world: World) -> None:
    await account(world)
    token = issue(world, expirationSeconds=600)
    world.clock.advance(599)
    assert authenticate(world, token).name == "system:serviceaccount:team:app"
    world.clock.advance(62)
    with pytest.raises(Unauthorized):
        authenticate(world, token)


async def test_a_token_for_somebody_else_is_refused(world: World) -> None:
    await account(world)
    with pytest.raises(Unauthorized):
        authenticate(world, issue(world, audiences=["vault"]))


async def test_a_token_dies_with_its_account(world: World) -> None:
    await account(world)
    token = issue(world)
    authenticate(world, token)
    await world.delete("core/serviceaccounts", "team/app")
    with pytest.raises(Unauthorized):
        authenticate(world, token)
    await account(world, uid="another-uid")
    with pytest.raises(Unauthorized):
        authenticate(world, token)


@pytest.mark.parametrize(
    ("kind", "bucket", "extra"),
    [("Pod", "core/pods", "pod"), ("Secret", "core/secrets", None), ("Node", "core/nodes", "node")],
)
async def test_a_bound_token_dies_with_its_object(world: World, kind: str, bucket: str, extra: str | None) -> None:
    await account(world)
    metadata = {"name": "thing", "uid": "thing-uid", **({} if kind == "Node" else {"namespace": "team"})}
    await world.put(bucket, {"metadata": metadata, "spec": {"serviceAccountName": "app"}})
    token = issue(world, boundObjectRef={"apiVersion": "v1", "kind": kind, "name": "thing", "uid": "thing-uid"})
    app = authenticate(world, token)
    if extra is not None:
        assert app.extra[f"authentication.kubernetes.io/{extra}-name"] == ("thing",)
        assert app.extra[f"authentication.kubernetes.io/{extra}-uid"] == ("thing-uid",)
    await world.put(bucket, {"metadata": {**metadata, "labels": {"a": "b"}}, "spec": {"serviceAccountName": "app"}})
    assert authenticate(world, token).name == app.name
    await world.delete(bucket, "thing" if kind == "Node" else "team/thing")
    with pytest.raises(Unauthorized):
        authenticate(world, token)


async def test_a_token_bound_to_a_deleted_pod_lives_for_another_minute(world: World) -> None:
    await account(world)
    metadata = {"name": "web", "namespace": "team", "uid": "u"}
    await world.put("core/pods", {"metadata": metadata, "spec": {"serviceAccountName": "app"}})
    token = issue(world, boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "web"})
    metadata["deletionTimestamp"] = rfc3339(world.clock.now())
    await world.put("core/pods", {"metadata": metadata, "spec": {"serviceAccountName": "app"}})
    world.clock.advance(30)
    assert authenticate(world, token).name == "system:serviceaccount:team:app"
    world.clock.advance(60)
    await world.put("core/pods", {"metadata": metadata, "spec": {"serviceAccountName": "app", "x": 1}})
    with pytest.raises(Unauthorized):
        authenticate(world, token)


async def bootstrap_secret(world: World, **changed: str | None) -> None:
    data: dict[str, str | None] = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:workers",
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items() if value is not None}
    metadata = {"name": "bootstrap-token-abcdef", "namespace": "kube-system"}
    await world.put("core/secrets", {"metadata": metadata, "type": "bootstrap.kubernetes.io/token", "data": encoded})


async def test_a_bootstrap_token_is_a_bootstrapper(world: World) -> None:
    await bootstrap_secret(world)
    node = authenticate(world, "abcdef.0123456789abcdef")
    assert node.name == "system:bootstrap:abcdef"
    assert node.groups == ("system:bootstrappers", "system:bootstrappers:workers", "system:authenticated")
    assert authenticate(world, "abcdef.0123456789abcdef") is node
    assert world.may(node, "create", "certificatesigningrequests", group="certificates.k8s.io")
    assert not world.may(node, "get", "secrets", namespace="kube-system")


@pytest.mark.parametrize(
    "changed",
    [
        {"token_secret": "another-secret-x"},
        {"token_secret": "0123456789abcdeß"},
        {"token_secret": ""},
        {"token_id": "fedcba"},
        {"usage_bootstrap_authentication": None},
        {"usage_bootstrap_authentication": "false"},
        {"auth_extra_groups": "system:masters"},
        {"expiration": "2020-01-01T00:00:00Z"},
        {"expiration": "soon"},
    ],
)
async def test_bootstrap_tokens_that_do_not_fit_are_refused(world: World, changed: dict[str, str | None]) -> None:
    await bootstrap_secret(world, **changed)
    with pytest.raises(Unauthorized):
        authenticate(world, "abcdef.0123456789abcdef")


async def test_a_bootstrap_token_expires_and_can_be_revoked(world: World) -> None:
    await bootstrap_secret(world, expiration=rfc3339(world.clock.now() + 100))
    authenticate(world, "abcdef.0123456789abcdef")
    world.clock.advance(101)
    with pytest.raises(Unauthorized):
        authenticate(world, "abcdef.0123456789abcdef")
    await bootstrap_secret(world)
    authenticate(world, "abcdef.0123456789abcdef")
    await world.delete("core/secrets", "kube-system/bootstrap-token-abcdef")
    with pytest.raises(Unauthorized):
        authenticate(world, "abcdef.0123456789abcdef")


async def impersonate(world: World, certificate: bytes, **headers: str) -> User:
    return world.authenticator.at_once(request(certificate, **headers))


async def test_masters_may_act_as_anybody(world: World) -> None:
    root = der(world.pki.admin())
    asked = request(
        root, impersonate_user="jane", impersonate_group="developers\ntesters", impersonate_extra_scopes="view"
    )
    jane = world.authenticator.at_once(asked)
    assert (jane.name, jane.groups) == ("jane", ("developers", "testers", "system:authenticated"))
    assert jane.extra == {"scopes": ("view",)}
    assert asked.impersonator.name == "kubernetes-admin"
    assert world.authenticator.at_once(asked) is jane


async def test_acting_as_a_service_account_brings_its_groups(world: World) -> None:
    app = await impersonate(world, der(world.pki.admin()), impersonate_user="system:serviceaccount:team:app")
    assert app.groups == ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated")


async def test_acting_as_the_anonymous_user(world: World) -> None:
    nobody = await impersonate(world, der(world.pki.admin()), impersonate_user="system:anonymous")
    assert nobody.groups == ("system:unauthenticated",)


async def test_acting_as_others_takes_permission_for_each_part(world: World) -> None:
    rule = {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["jane"]}
    await world.put(f"{RBAC}/clusterroles", {"metadata": {"name": "actor"}, "rules": [rule]})
    await world.bind("actor", {"kind": "User", "name": "joe"})
    joe = der(world.pki.client("joe"))
    assert (await impersonate(world, joe, impersonate_user="jane")).name == "jane"
    with pytest.raises(Forbidden) as refused:
        await impersonate(world, joe, impersonate_user="root")
    assert refused.value.message == (
        'users "root" is forbidden: User "joe" cannot impersonate resource "users" in API group "" at the cluster scope'
    )
    with pytest.raises(Forbidden):
        await impersonate(world, joe, impersonate_user="jane", impersonate_group="system:masters")
    with pytest.raises(Forbidden):
        await impersonate(world, joe, impersonate_user="jane", impersonate_uid="1")


async def test_groups_without_a_user_are_no_impersonation(world: World) -> None:
    with pytest.raises(BadRequest):
        await impersonate(world, der(world.pki.admin()), impersonate_group="developers")
