"""One parser: a request that states something twice is authorized and handled alike, or rejected."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import quote

import pytest

from tarmac.api.compute.names import LABEL_DISK_NODE
from tarmac.api.status import BadRequest
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import SECRETS
from tarmac.client.targets.untyped import VOLUMES as VOLUME_TARGET
from tarmac.http.limits import ListenerLimits
from tarmac.http.messages import Request
from tarmac.http.reading import SINGLE, RequestReader
from tarmac.server.requestinfo import request_info
from tests.security.wire import CLIENT, KUBELET_SERVING, Wire, csr, serving, signing_request

VOLUMES = "/api/v1/persistentvolumes"
ROLES = dynamic("rbac.authorization.k8s.io/v1", "roles", "Role")
BINDINGS = dynamic("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        yield running


async def volume(wire: Wire, node: str) -> None:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/somewhere"},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    metadata = {"name": f"of-{node}", "labels": {LABEL_DISK_NODE: node}}
    await wire.admin.resource(VOLUME_TARGET).create({"metadata": metadata, "spec": spec})


async def test_a_node_cannot_list_everybodys_volumes_by_asking_twice(wire: Wire) -> None:
    for node in ("n1", "n2"):
        await volume(wire, node)
    own, all_of_them = f"labelSelector={quote(f'{LABEL_DISK_NODE}=n1')}", "labelSelector="
    answer = await wire.node("n1").get(f"{VOLUMES}?{own}")
    assert [each["metadata"]["name"] for each in answer.body["items"]] == ["of-n1"]
    for query in (f"{all_of_them}&{own}", f"{own}&{all_of_them}", f"{own}&{own}", f"labelSelector&{own}"):
        assert (await wire.node("n1").get(f"{VOLUMES}?{query}")).status == 403, query
        assert (await wire.node("n1").get(f"{VOLUMES}?watch=1&{query}")).status == 403, query


async def test_a_node_cannot_list_everybodys_pods_by_asking_twice(wire: Wire) -> None:
    await wire.admin.resource(
        dynamic("rbac.authorization.k8s.io/v1", "clusterrolebindings", "X", namespaced=False)
    ).delete("tarmac:node-network")
    node = wire.node("n1")
    own, all_of_them = "fieldSelector=spec.nodeName%3Dn1", "fieldSelector="
    assert (await node.get(f"/api/v1/pods?{own}")).status == 200
    for query in (f"{all_of_them}&{own}", f"{own}&{all_of_them}", "fieldSelector=spec.nodeName%21%3Dn2"):
        assert (await node.get(f"/api/v1/pods?{query}")).status == 403, query


async def test_a_name_in_an_escaped_selector_is_not_the_name_that_is_listed(wire: Wire) -> None:
    """A user who may list one Secret by name may not list all by hiding that name in another field's value."""
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"], "resourceNames": ["mine"]}
    await wire.admin.resource(ROLES).create({"metadata": {"name": "one", "namespace": "default"}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"}
    subjects = [{"kind": "User", "name": "joe", "apiGroup": "rbac.authorization.k8s.io"}]
    body = {"metadata": {"name": "one", "namespace": "default"}, "roleRef": reference, "subjects": subjects}
    await wire.admin.resource(BINDINGS).create(body)
    for name in ("mine", "theirs"):
        await wire.admin.resource(SECRETS).create({"metadata": {"name": name, "namespace": "default"}})
    joe, path = wire.attacker(wire.pki.client("joe")), "/api/v1/namespaces/default/secrets?fieldSelector="
    answer = await joe.get(path + quote("metadata.name=mine"))
    assert [each["metadata"]["name"] for each in answer.body["items"]] == ["mine"]
    for selector in (
        r"type!=x\,metadata.name\=mine",
        r"type!=x\,metadata.name=mine",
        r"metadata.name!=a\,metadata.name\=mine",
        "metadata.name!=mine",
    ):
        assert (await joe.get(path + quote(selector))).status in (400, 403), selector
    assert (await joe.get(f"{path}&fieldSelector=metadata.name%3Dmine")).status == 403


async def test_two_credentials_are_none(wire: Wire) -> None:
    token = ("Authorization", f"Bearer {await wire.token()}")
    for second in (("Authorization", "Bearer x"), ("authorization", ""), token):
        answer = await wire.attacker().get("/api/v1/pods", token, second)
        assert (answer.status, answer.message) == (400, "too many Authorization headers")


async def test_one_user_is_impersonated(wire: Wire) -> None:
    admin = wire.attacker(wire.pki.admin())
    twice = (("Impersonate-User", "jane"), ("Impersonate-User", "system:admin"))
    assert (await admin.get("/api/v1/pods", *twice)).status == 400
    groups = (("Impersonate-User", "jane"), ("Impersonate-Group", "system:masters"), ("Impersonate-Group", "devs"))
    assert (await admin.get("/api/v1/pods", *groups)).status == 200


async def test_headers_that_say_who_somebody_is_are_not_believed(wire: Wire) -> None:
    said = [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters"), ("X-Forwarded-User", "admin")]
    assert (await wire.attacker().get("/api/v1/secrets", *said)).status == 403


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_a_header_with_one_meaning_is_there_once(name: str) -> None:
    reader = RequestReader(ListenerLimits(), lambda: 0.0)
    value = "chunked" if name == "transfer-encoding" else "0"
    host = "" if name == "host" else "Host: server\r\n"
    reader.feed(f"POST / HTTP/1.1\r\n{host}{name}: {value}\r\n{name.upper()}: {value}\r\n\r\n".encode())
    [refusal] = reader.ready
    assert isinstance(refusal, BadRequest), refusal
    assert reader.last


async def test_the_last_of_two_equal_keys_is_what_is_admitted_and_stored(wire: Wire) -> None:
    """An object that admission rejects cannot hide behind one that it accepts."""
    body = json.dumps(signing_request(csr("jane", "system:masters"), CLIENT))
    doubled = body.replace('"signerName": ', f'"signerName": "{KUBELET_SERVING}", "signerName": ')
    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    answer = await wire.attacker(wire.pki.admin()).post(requests, doubled.encode())
    assert answer.status == 403
    assert "system:masters group is not allowed" in answer.message


@pytest.mark.parametrize(
    "target",
    [
        "/api/v1/nodes/n1/proxy/a%20b://x/exec/default/web/main",
        "/api/v1/nodes/n1/proxy//exec/default/web/main",
        "/api/v1/nodes/n1/proxy/%2Fexec/default/web/main",
        "/api/v1/nodes/n1/proxy/%65xec/default/web/main",
        "http://elsewhere/api/v1/nodes/n1/proxy/exec/default/web/main",
    ],
)
def test_server_and_node_parse_forwarded_paths_alike(target: str) -> None:
    """The node reads the forwarded path again, with the same parser and the same result."""
    request = read(target)
    info = request_info(request)
    _, _, behind = request.path.partition("/n1/proxy")
    seen = read(quote(behind, safe="/:@!$&'()*+,;=~-._"))
    opens = seen.path.strip("/").partition("/")[0] == "exec"
    assert (info.resource, info.name, info.subresource) == ("nodes", "n1", "proxy")
    assert info.verb == ("create" if opens else "get")


def read(target: str) -> Request:
    reader = RequestReader(ListenerLimits(), lambda: 0.0)
    reader.feed(f"GET {target} HTTP/1.1\r\nHost: server\r\n\r\n".encode())
    [request] = reader.ready
    assert isinstance(request, Request)
    return request
