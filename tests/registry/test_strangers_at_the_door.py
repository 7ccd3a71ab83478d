"""Attacks of users with rights to push in one namespace, or in none."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.repositories import TOKEN_ISSUER
from tarmac.base.clock import SystemClock
from tarmac.server.security.certificates.pki import Pki, write_kubeconfig
from tarmac.server.security.tokens.jwt import SigningKey, base64url
from tarmac.server.security.tokens.repositorytokens import key_id
from tests.registry.client import HOST, Client, Image
from tests.registry.conftest import Place
from tests.support.kubectl import Kubectl


@pytest.fixture(scope="module")
def tenants(place: Place, image: Image) -> tuple[Client, Client]:
    """Two users who push in namespaces of their own; the first has pushed."""
    place.namespace("ours")
    place.namespace("theirs")
    one, other = (place.person(each, "builder", "tarmac:image-pusher") for each in ("ours", "theirs"))
    assert one.push(image, "ours/app", "1").status == 201
    return one, other


def test_nobody_is_told_to_log_in(place: Place, tenants: tuple[Client, Client]) -> None:
    nobody = place.client()
    login = nobody.call("GET", "/v2/")
    assert (login.status, login.headers["www-authenticate"]) == (401, f'Basic realm="{HOST}"')
    assert "a token of a service account as the password" in login.message
    pull = nobody.pull("ours/app", "1")
    assert pull.status == 401
    assert 'User "system:anonymous" cannot pull' in pull.message


@pytest.mark.parametrize("password", ["wrong", "a.b.c", "abcdef.0123456789abcdef", "x" * 5000])
def test_a_wrong_password_is_refused_and_never_becomes_nobody(place: Place, password: str) -> None:
    assert place.client(password).tokens(place.realm, HOST).status == 401


def test_login_alone_gives_a_token_without_rights(tenants: tuple[Client, Client]) -> None:
    assert tenants[1].call("GET", "/v2/").status == 200


def test_a_neighbour_may_neither_pull_nor_push(tenants: tuple[Client, Client], image: Image) -> None:
    _, other = tenants
    for refused in (other.pull("ours/app", "1"), other.push(image, "ours/app", "1")):
        assert refused.status == 403
        assert 'in the namespace "ours"' in refused.message


def test_a_token_for_one_repository_opens_no_other(tenants: tuple[Client, Client], image: Image) -> None:
    _, other = tenants
    assert other.push(image, "theirs/app", "1").status == 201
    for method, path in (
        ("GET", "/v2/ours/app/manifests/1"),
        ("HEAD", f"/v2/ours/app/blobs/{next(iter(image.blobs))}"),
        ("POST", "/v2/ours/app/blobs/uploads/"),
        ("PUT", "/v2/ours/app/manifests/1"),
        ("DELETE", "/v2/ours/app/manifests/1"),
        ("GET", "/v2/ours/app/tags/list"),
        ("GET", "/v2/theirs/../ours/app/manifests/1"),
        ("GET", "/v2/theirs/%2e%2e/ours/app/manifests/1"),
        ("GET", "/v2/_catalog"),
    ):
        assert other.send(method, path).status in (301, 400, 401, 404), path  # 301: to the path without dots
    assert other.send("GET", "/v2/theirs/app/manifests/1").status == 200


def test_a_layer_is_not_taken_from_where_one_may_not_pull(
    place: Place, tenants: tuple[Client, Client], tmp_path: Path
) -> None:
    from tests.registry.conftest import made

    one, other = tenants
    secret = made(tmp_path, "a secret of ours")
    assert one.push(secret, "ours/hidden", "1").status == 201
    digest = list(secret.blobs)[-1]
    other.token = other.tokens(place.realm, HOST, "repository:theirs/app:pull,push").json["token"]
    taken = other.send("POST", f"/v2/theirs/app/blobs/uploads/?mount={digest}&from=ours/hidden")
    assert taken.status == 401, "the registry must want a right to pull where the layer comes from"
    assert other.send("GET", f"/v2/theirs/app/blobs/{digest}").status == 404
    # A client requests both at once, and gets the permitted one.
    both = other.tokens(place.realm, HOST, "repository:theirs/app:pull,push", "repository:ours/hidden:pull")
    assert claims(both.json["token"])["access"] == [
        {"type": "repository", "name": "theirs/app", "actions": ["pull", "push"]}
    ]


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        ("repository:app:pull", "NAMESPACE/NAME"),
        ("repository:ours/../theirs/app:pull", "NAMESPACE/NAME"),
        ("repository:/app:pull", "NAMESPACE/NAME"),
        ("repository:ours/:pull", "NAMESPACE/NAME"),
        ("repository:Ours/app:pull", "NAMESPACE/NAME"),
        ("repository:ours/app\x00:pull", "NAMESPACE/NAME"),
        ("repository:ours/" + "a/" * 150 + "a:pull", "NAMESPACE/NAME"),
        ("repository(plugin):ours/app:pull", "NAMESPACE/NAME"),
        ("registry:anything:*", "NAMESPACE/NAME"),
        ("repository:ours/app:*", "cannot be had"),
        ("repository:ours/app:delete", "cannot be had"),
        ("repository:ours/app:" + "pull," * 200, "longer than 512"),
    ],
)
def test_a_scope_that_means_nothing_is_named(
    place: Place, tenants: tuple[Client, Client], scope: str, why: str
) -> None:
    answer = tenants[0].tokens(place.realm, HOST, scope)
    assert answer.status == 400
    assert why in answer.message


def test_scopes_are_bounded(place: Place, tenants: tuple[Client, Client]) -> None:
    many = [f"repository:ours/app{number}:pull" for number in range(17)]
    answer = tenants[0].tokens(place.realm, HOST, *many)
    assert (answer.status, answer.message) == (400, "17 scopes are asked for at once, and 16 is the most")
    assert tenants[0].tokens(place.realm, HOST, " ".join(many)).status == 400
    assert tenants[0].tokens(place.realm, "elsewhere", many[0]).status == 400


def test_the_catalogue_is_for_those_who_may_list_all(place: Place, tenants: tuple[Client, Client]) -> None:
    refused = tenants[0].call("GET", "/v2/_catalog")
    assert (refused.status, refused.message.endswith('in API group "images.tarmac.dev" at the cluster scope')) == (
        403,
        True,
    )
    admin = place.person("default", "admin")
    account = "--serviceaccount=default:admin"
    place.kubectl("create", "clusterrolebinding", "all", "--clusterrole=cluster-admin", account)
    assert "ours/app" in admin.call("GET", "/v2/_catalog").json["repositories"]


def test_a_token_for_the_registry_alone_is_not_for_the_api(place: Place, tenants: tuple[Client, Client]) -> None:
    narrow = place.kubectl("create", "token", "builder", "-n", "ours", f"--audience={HOST}").strip()
    assert place.client(narrow).pull("ours/app", "1").status == 200
    assert place.client(narrow).as_bearer(place.process.url, "/api").status == 401
    foreign = place.kubectl("create", "token", "builder", "-n", "ours", "--audience=elsewhere").strip()
    assert place.client(foreign).tokens(place.realm, HOST).status == 401


def test_a_right_that_is_taken_away_is_gone_with_the_next_token(place: Place) -> None:
    place.namespace("passing")
    person = place.person("passing", "builder", "tarmac:image-pusher")
    assert person.tokens(place.realm, HOST, "repository:passing/app:pull").status == 200
    place.kubectl("delete", "rolebinding", "builder", "-n", "passing")
    assert person.tokens(place.realm, HOST, "repository:passing/app:pull").status == 403
    place.kubectl("delete", "serviceaccount", "builder", "-n", "passing")
    assert person.tokens(place.realm, HOST, "repository:passing/app:pull").status == 401


def test_an_administrator_of_a_namespace_lets_others_in(place: Place, image: Image) -> None:
    place.namespace("delegated")
    owner = place.person("delegated", "owner", "admin")
    who = ("--as=system:serviceaccount:delegated:owner", "--as-group=system:authenticated", "-n", "delegated")
    place.kubectl("create", "serviceaccount", "ci", "-n", "delegated")
    place.kubectl(
        "create", "rolebinding", "ci", "--clusterrole=tarmac:image-pusher", "--serviceaccount=delegated:ci", *who
    )
    assert owner.push(image, "delegated/app", "1").status == 201
    asked = {"verb": "push", "group": "images.tarmac.dev", "resource": "repositories", "name": "app"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "system:serviceaccount:delegated:ci",
            "resourceAttributes": {**asked, "namespace": "delegated"},
        },
    }
    answer = json.loads(place.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(review)))
    assert answer["status"]["allowed"] is True


def test_a_node_has_no_right_of_its_own_and_only_the_identities_of_its_pods(place: Place, tmp_path: Path) -> None:
    place.namespace("running")
    for pod, node in (("here", "taken-over"), ("elsewhere", "another")):
        container = {"name": "main", "image": "registry.tarmac.local/running/app:1"}
        metadata = {"name": pod, "namespace": "running"}
        place.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
        spec = {"nodeName": node, "containers": [container]}
        place.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    pki = Pki(place.process.data_dir / "pki", SystemClock())
    config = tmp_path / "kubeconfig"
    write_kubeconfig(config, place.process.url, pki.ca_file.read_bytes(), pki.node("taken-over"))
    node = Kubectl(config, tmp_path)
    token = node.run("get", "--raw", f"/registry/token?service={HOST}&scope=repository:running/app:pull")
    assert token.code != 0
    assert "Forbidden" in token.err

    def identity(pod: str, audience: str) -> tuple[int, str]:
        uid = place.kubectl("get", "pod", pod, "-n", "running", "-o", "jsonpath={.metadata.uid}")
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        spec = {"audiences": [audience], "boundObjectRef": bound}
        path = "/api/v1/namespaces/running/serviceaccounts/default/token"
        done = node.run("create", "--raw", path, "-f", "-", stdin=json.dumps({**request, "spec": spec}))
        return done.code, done.out + done.err

    code, said = identity("here", HOST)
    assert code == 0, said
    person = place.client(json.loads(said)["status"]["token"])
    refused = person.tokens(place.realm, HOST, "repository:running/app:pull")
    assert (refused.status, "system:serviceaccount:running:default" in refused.message) == (403, True)
    assert identity("elsewhere", HOST)[0] != 0
    assert identity("here", "somebody-else")[0] != 0


def claims(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def forged(place: Place, change: Callable[[dict[str, Any], dict[str, Any]], None], key: bytes) -> str:
    """Return a token for everything of ours, as the server signs them, with a change of header or claims."""
    signing = SigningKey(key, key_id)
    now = int(SystemClock().now())
    body: dict[str, Any] = {"iss": TOKEN_ISSUER, "sub": "x", "aud": HOST, "exp": now + 300, "nbf": now, "iat": now}
    body["access"] = [{"type": "repository", "name": "ours/app", "actions": ["pull"]}]
    header: dict[str, Any] = {"alg": signing.algorithm, "kid": signing.id, "typ": "JWT"}
    change(header, body)
    signed = ".".join(base64url(json.dumps(part).encode()) for part in (header, body))
    return f"{signed}.{base64url(signing.signature(signed.encode()))}"


def test_tokens_that_are_not_the_servers_open_nothing(place: Place, tenants: tuple[Client, Client]) -> None:
    pki = Pki(place.process.data_dir / "pki", SystemClock())
    own, thief = pki.registry_tokens().key, pki.node("dfw-0")
    certificate = base64.b64encode(base64.b64decode("".join(thief.certificate.decode().split("-----")[2].split())))
    chain = {"x5c": [certificate.decode()]}
    accounts = pki.token_key_file.read_bytes()
    client = place.client()

    def opens(token: str) -> bool:
        client.token = token
        return client.send("GET", "/v2/ours/app/manifests/1").status == 200

    assert opens(forged(place, lambda _h, _c: None, own)), "the unchanged forgery is valid"
    assert not opens(forged(place, lambda _h, body: body.update(exp=body["nbf"] - 120), own)), "expired"
    assert not opens(forged(place, lambda _h, body: body.update(nbf=body["nbf"] + 600), own)), "not yet"
    assert not opens(forged(place, lambda _h, body: body.update(aud="elsewhere"), own)), "for another service"
    assert not opens(forged(place, lambda _h, body: body.update(iss="elsewhere"), own)), "of another issuer"
    assert not opens(forged(place, lambda head, _c: head.update(chain) or head.pop("kid"), thief.key)), "by a node"
    assert not opens(forged(place, lambda _h, _c: None, accounts)), "by the key of service accounts"
    assert not opens(forged(place, lambda head, _c: head.update(alg="none"), own) + "x"), "without a signature"
