"""A stolen node certificate: the addresses it can claim, the tokens it gets, and the labels it cannot set."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from tarmac.api.egress.names import ANNOTATION_NODE_FACTS
from tarmac.api.egress.nodefacts import NodeFacts, write_facts
from tarmac.api.mirrorpods import MIRROR
from tarmac.api.networking.tunnels import ANNOTATION_TUNNEL, NodeTunnel, write_tunnel
from tarmac.api.status import Invalid
from tarmac.base.clock import SystemClock
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import BUDGETS, NAMESPACES, NODES, PODS, SERVICES
from tests.security.wire import KUBELET_SERVING, Json, Wire, csr_of, serving, signing_request, subject

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
STATUS = "/api/v1/nodes/n1/status"
TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
BANK = "https://bank.example/api"


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        for name, address in (("n1", "10.0.0.1"), ("n2", "10.0.0.2"), ("n1.other", "10.0.0.3")):
            await running.admin.resource(NODES).create({"metadata": {"name": name}})
            await shown(running, name, ("InternalIP", address), ("Hostname", name))
        yield running


async def shown(wire: Wire, node: str, *addresses: tuple[str, str]) -> None:
    """Write addresses into a Node's status as the administrator, who may write any."""
    entries = [{"type": kind, "address": address} for kind, address in addresses]
    await wire.admin.resource(NODES).patch(node, {"status": {"addresses": entries}}, subresource="status")


async def service(wire: Wire, name: str = "web", namespace: str = "default") -> str:
    spec = {"ports": [{"port": 80}], "selector": {"app": "web"}}
    made = await wire.admin.resource(SERVICES).create(
        {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
    )
    return made["spec"]["clusterIP"]


CLAIMS = [
    ("InternalIP", "127.0.0.1", "loopback"),
    ("InternalIP", "::1", "loopback"),
    ("InternalIP", "::ffff:127.0.0.1", "loopback"),
    ("InternalIP", "169.254.169.254", "link-local"),
    ("InternalIP", "fe80::1", "link-local"),
    ("ExternalIP", "224.0.0.1", "multicast"),
    ("InternalIP", "0.0.0.0", "0 are refused"),
    ("InternalIP", "255.255.255.255", "reserved"),
    ("InternalIP", "10.96.0.1", "in the range of Services"),
    ("InternalIP", "::ffff:10.96.0.1", "in the range of Services"),
    ("InternalIP", "10.0.0.2", 'that of node "n2"'),
    ("ExternalIP", "10.0.0.2", 'that of node "n2"'),
    ("InternalIP", "nonsense", "is not an IP address"),
    ("InternalIP", "fe80::1%eth0", "is not an IP address"),
    ("Hostname", "n2", 'neither "n1" nor below it'),
    ("Hostname", "kubernetes.default.svc", 'neither "n1" nor below it'),
    ("InternalDNS", "n1.default.svc", "belongs to the cluster"),
    ("InternalDNS", "N1.default.svc.cluster.local.", "belongs to the cluster"),
    ("InternalDNS", "n1.other", "another node's"),
    ("InternalDNS", "*", 'neither "n1" nor below it'),
    ("Whatever", "10.0.0.9", "is no type of address"),
]


async def test_a_node_claims_no_address_of_others(wire: Wire) -> None:
    node = wire.node("n1")
    for kind, address, why in CLAIMS:
        entries = [{"type": kind, "address": address}]
        answer = await node.patch(STATUS, {"status": {"addresses": entries}})
        assert (answer.status, why in answer.message) == (403, True), (kind, address, answer)
    for kind, address in (("InternalIP", "10.0.0.9"), ("ExternalIP", "2001:db8::9"), ("InternalDNS", "n1.lan")):
        answer = await node.patch(STATUS, {"status": {"addresses": [{"type": kind, "address": address}]}})
        assert answer.status == 200, answer


async def test_a_node_publishes_no_tunnel_key_of_others(wire: Wire) -> None:
    def published(key: str) -> Json:
        return {"metadata": {"annotations": {ANNOTATION_TUNNEL: write_tunnel(NodeTunnel(True, "kernel", key))}}}

    assert (await wire.node("n2").patch("/api/v1/nodes/n2/status", published("key of n2"))).status == 200
    for path in ("/api/v1/nodes/n1", STATUS):
        answer = await wire.node("n1").patch(path, published("key of n2"))
        assert (answer.status, 'that of node "n2"' in answer.message) == (403, True), answer
    assert (await wire.node("n1").patch(STATUS, published("key of n1"))).status == 200
    assert (await wire.node("n2").patch("/api/v1/nodes/n2/status", published("key of n2"))).status == 200
    await wire.admin.resource(NODES).delete("n2")
    assert (await wire.node("n1").patch(STATUS, published("key of n2"))).status == 200


async def test_a_node_publishes_no_key_of_others_in_its_facts_either(wire: Wire) -> None:
    """Each annotation is compared with both of the other nodes, which publish one key in two places."""

    def tunnel(key: str) -> Json:
        return {"metadata": {"annotations": {ANNOTATION_TUNNEL: write_tunnel(NodeTunnel(True, "kernel", key))}}}

    def facts(key: str) -> Json:
        return {"metadata": {"annotations": {ANNOTATION_NODE_FACTS: write_facts(NodeFacts(public_key=key))}}}

    path = "/api/v1/nodes/n2/status"
    for own in (facts("key of n2"), tunnel("key of n2")):
        assert (await wire.node("n2").patch(path, own)).status == 200
        for said in (facts, tunnel):
            answer = await wire.node("n1").patch(STATUS, said("key of n2"))
            assert (answer.status, 'that of node "n2"' in answer.message) == (403, True), answer
    assert (await wire.node("n1").patch(STATUS, facts("key of n1"))).status == 200


async def test_the_claim_is_looked_at_when_a_node_registers_as_well(wire: Wire) -> None:
    body: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n9"}}
    body["status"] = {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]}
    assert (await wire.node("n9").post("/api/v1/nodes", body)).status == 403
    named: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "kubernetes"}}
    named["status"] = {"addresses": [{"type": "Hostname", "address": "kubernetes"}]}
    answer = await wire.node("kubernetes").post("/api/v1/nodes", named)
    assert (answer.status, "belongs to the cluster" in answer.message) == (403, True)


async def test_an_address_is_free_again_when_its_node_is_gone(wire: Wire) -> None:
    claim = {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]}}
    assert (await wire.node("n1").patch(STATUS, claim)).status == 403
    await wire.admin.resource(NODES).delete("n2")
    assert (await wire.node("n1").patch(STATUS, claim)).status == 200


async def test_the_api_servers_address_is_for_nodes_that_an_administrator_put_beside_it(wire: Wire) -> None:
    endpoints = {"addresses": [{"ip": "10.0.0.50"}], "ports": [{"port": 6443}]}
    where = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "kubernetes", "namespace": "default"}}
    await wire.admin.resource(dynamic("v1", "endpoints", "Endpoints")).apply(
        {**where, "subsets": [endpoints]}, manager="x"
    )
    claim = {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.50"}]}}
    answer = await wire.node("n1").patch(STATUS, claim)
    assert (answer.status, "the API server's" in answer.message) == (403, True)
    role = {"node-role.kubernetes.io/control-plane": ""}
    assert (await wire.node("n1").patch("/api/v1/nodes/n1", {"metadata": {"labels": role}})).status == 403
    await wire.admin.resource(NODES).patch("n1", {"metadata": {"labels": role}})
    assert (await wire.node("n1").patch(STATUS, claim)).status == 200


async def asked(wire: Wire, *names: str) -> Json:
    """Return the status of n1's request for a serving certificate, whose Node reports these names."""
    known = [("InternalIP" if each[0].isdigit() or ":" in each else "Hostname", each) for each in names]
    await shown(wire, "n1", *known)
    general = [x509.IPAddress(ip_address(each)) if kind == "InternalIP" else x509.DNSName(each) for kind, each in known]
    pem = csr_of(
        subject((NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, "system:node:n1")), *general
    )
    requests = await wire.node("n1").post(REQUESTS, signing_request(pem, KUBELET_SERVING))
    assert requests.status == 201, requests
    status = await wire.decided("wanted")
    await wire.admin.resource(
        dynamic("certificates.k8s.io/v1", REQUESTS.rpartition("/")[2], "X", namespaced=False)
    ).delete("wanted")
    return status


async def test_a_serving_certificate_is_for_the_nodes_own_names_whatever_its_status_says(wire: Wire) -> None:
    await wire.admin.resource(NAMESPACES).create({"metadata": {"name": "shop"}})
    address = await service(wire)
    await service(wire, "n1", "shop")
    assert (await asked(wire, "n1", "10.0.0.1"))["conditions"][0]["type"] == "Approved"
    for name in (
        "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
        "localhost", "127.0.0.1", "::1", "10.96.0.1", address, "10.0.0.2", "n2", "n1.other", "n1.shop", "n1.shop.svc",
        "web.default.svc",
    ):  # fmt: skip
        status = await asked(wire, "n1", name)
        [condition] = status["conditions"]
        assert (condition["type"], condition["reason"]) == ("Denied", "NotTheNodesOwn"), name
        assert "certificate" not in status


async def test_the_authority_signs_no_name_of_its_own_servers_for_others(tmp_path: Path) -> None:
    """An administrator's approval does not help."""
    async with serving(tmp_path) as wire:
        pem = csr_of(subject((NameOID.COMMON_NAME, "system:node:n1")), x509.DNSName("Kubernetes.default"))
        with pytest.raises(ValueError, match="an API server's own"):
            wire.pki.sign_request(pem, ["digital signature", "server auth"], 3600)
        pem = csr_of(subject((NameOID.COMMON_NAME, "system:node:n1")), x509.DNSName("Registry.tarmac.local"))
        with pytest.raises(ValueError, match="the registry's own"):
            wire.pki.sign_request(pem, ["digital signature", "server auth"], 3600)


async def pod(wire: Wire, name: str, node: str, **spec: Any) -> Json:
    body: Json = {"metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}}
    body["spec"] = {"nodeName": node, "containers": [{"name": "c", "image": "busybox"}], **spec}
    return await wire.admin.resource(PODS).create(body)


def token_for(pod: Json, *audiences: str, **more: Any) -> Json:
    metadata = pod["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], **more}
    spec = {"boundObjectRef": bound, "audiences": list(audiences)}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


async def test_a_node_gets_tokens_for_its_own_pods_bound_to_them_for_whom_they_ask(wire: Wire) -> None:
    sources = [{"serviceAccountToken": {"path": "v", "audience": "vault"}}]
    mine = await pod(wire, "mine", "n1", volumes=[{"name": "v", "projected": {"sources": sources}}])
    theirs = await pod(wire, "theirs", "n2")
    node = wire.node("n1")
    assert (await node.post(TOKEN, token_for(mine))).status == 201
    assert (await node.post(TOKEN, token_for(mine, "vault"))).status == 201
    for body, why in (
        ({**token_for(mine), "spec": {}}, "not bound to a pod"),
        (token_for(mine, uid=""), "without a uid"),
        (token_for(mine, uid="another"), "does not match the UID in record"),
        (token_for(mine, kind="Secret"), "not bound to a pod"),
        (token_for(theirs), "scheduled on a different node"),
        (token_for(mine, "bank"), 'audience "bank" not found in pod spec volume'),
        (token_for(mine, "vault", "bank"), "0 or 1 audiences"),
    ):
        answer = await node.post(TOKEN, body)
        assert (answer.status, why in answer.message) == (403, True), (body, answer)
    assert (await wire.node("n2").post(TOKEN, token_for(mine))).status == 403


async def test_an_audience_can_be_granted_to_nodes(wire: Wire) -> None:
    """A verb of its own on the audience grants it, as in Kubernetes."""
    mine = await pod(wire, "mine", "n1")
    rule = {"apiGroups": [""], "resources": [BANK], "verbs": ["request-serviceaccounts-token-audience"]}
    group = "rbac.authorization.k8s.io"
    roles = dynamic(f"{group}/v1", "clusterroles", "ClusterRole", namespaced=False)
    bindings = dynamic(f"{group}/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
    await wire.admin.resource(roles).create({"metadata": {"name": "bank"}, "rules": [rule]})
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": "bank"}
    subjects = [{"kind": "Group", "name": "system:nodes", "apiGroup": group}]
    await wire.admin.resource(bindings).create({"metadata": {"name": "b"}, "roleRef": reference, "subjects": subjects})
    assert (await wire.node("n1").post(TOKEN, token_for(mine, BANK))).status == 201
    assert (await wire.node("n1").post(TOKEN, token_for(mine, "other"))).status == 403


async def test_an_eviction_that_is_refused_costs_nobodys_budget(wire: Wire) -> None:
    await pod(wire, "theirs", "n2")
    budget: Json = {"metadata": {"name": "b", "namespace": "default"}}
    budget["spec"] = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await wire.admin.resource(BUDGETS).create(budget)
    before = await wire.admin.resource(PODS).get("theirs", "default")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "theirs", "namespace": "default"}}
    answer = await wire.node("n1").post("/api/v1/namespaces/default/pods/theirs/eviction", eviction)
    assert answer.status == 403
    assert await wire.admin.resource(PODS).get("theirs", "default") == before


async def test_nobody_marks_a_running_pod_as_a_mirror(wire: Wire) -> None:
    await pod(wire, "web", "n1")
    pods, mark = wire.admin.resource(PODS), {"metadata": {"annotations": {MIRROR: "x"}}}
    for subresource in ("", "status"):
        with pytest.raises(Invalid, match="may not add mirror pod annotation"):
            await pods.patch("web", mark, "default", subresource=subresource)
    answer = await wire.node("n1").patch("/api/v1/namespaces/default/pods/web/status", mark)
    assert (answer.status, "may not add mirror pod annotation" in answer.message) == (422, True)
    unbound = {
        "metadata": {"name": "free", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    await pods.create({**unbound, "spec": {**unbound["spec"], "schedulerName": "nobody"}})
    binding: Json = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "n1"}}
    binding["metadata"] = {"name": "free", "namespace": "default", "annotations": {MIRROR: "x"}}
    answer = await wire.attacker(wire.pki.admin()).post("/api/v1/namespaces/default/pods/free/binding", binding)
    assert (answer.status, "may not add mirror pod annotation" in answer.message) == (400, True)


async def test_a_mirror_stays_one(wire: Wire) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "controller": True}
    owner["uid"] = (await wire.admin.resource(NODES).get("n1"))["metadata"]["uid"]
    metadata = {"name": "m", "namespace": "default", "annotations": {MIRROR: "x"}, "ownerReferences": [owner]}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "busybox"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    answer = await wire.node("n1").post("/api/v1/namespaces/default/pods", body)
    assert answer.status == 201, answer
    for value in (None, "y"):
        with pytest.raises(Invalid, match="may not remove or update mirror pod annotation"):
            await wire.admin.resource(PODS).patch("m", {"metadata": {"annotations": {MIRROR: value}}}, "default")


async def test_a_tenant_makes_no_mirror_pod(wire: Wire) -> None:
    """Drains and decommissions skip them, so one would keep a node from being emptied."""
    group = "rbac.authorization.k8s.io"
    bindings = dynamic(f"{group}/v1", "rolebindings", "RoleBinding")
    body: Json = {"roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "admin"}}
    body |= {"subjects": [{"kind": "User", "name": "jane", "apiGroup": group}], "metadata": {"name": "jane"}}
    await wire.admin.resource(bindings).create(
        {"apiVersion": f"{group}/v1", "kind": "RoleBinding", **body}, namespace="default"
    )
    jane = wire.attacker(wire.pki.authority.issue_client("jane", (), SystemClock().now()))
    spec: Json = {"nodeName": "n2", "containers": [{"name": "c", "image": "busybox"}]}
    mirror: Json = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
    mirror["metadata"] = {"name": "m", "namespace": "default", "annotations": {MIRROR: "x"}}
    pods = "/api/v1/namespaces/default/pods"
    apply = ("Content-Type", "application/apply-patch+yaml")
    for answer in (
        await jane.post(pods, mirror),
        await jane.post(f"{pods}?dryRun=All", mirror),
        await jane.send("PATCH", f"{pods}/m?fieldManager=jane", mirror, apply),
    ):
        assert (answer.status, f"metadata.annotations[{MIRROR}]" in answer.message) == (403, True), answer
