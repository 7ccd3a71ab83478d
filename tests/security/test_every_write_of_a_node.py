"""Writes every kind of object that a node may write, with extreme values in all parts; objects of a tenant still work.

~ The writes come from the rules of nodes, so a new rule without a walk here fails. Observed are => The writes come from
the rules of nodes, so a new rule without a test here fails. The test observes
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import ENDPOINT_SLICES, NAMESPACES, PODS, SERVICES, VOLUME_CLAIMS
from tarmac.server.security.authorization.policy import CLUSTER_ROLES, NODE_EXTERNAL, NODE_INGRESS, NODE_RULES
from tests.security.tenants import mirror_of, placed, pod, ready_nodes, tenant
from tests.security.wire import Json, Wire, csr, serving, signing_request

QUOTAS = dynamic("v1", "resourcequotas", "ResourceQuota")
WEB = {"app": "web"}
BANK = "/api/v1/namespaces/bank"
NODE = "/api/v1/nodes/n1"
NETWORKING = "/apis/networking.datumapis.com/v1alpha"
WRITES = {"create", "update", "patch", "delete"}
VALUES: tuple[Any, ...] = (
    None, "", "x" * 20_000, "-1", "1e400", "9" * 5000, "\x00\u202e\n", -1, 2**63 - 1, 2**70, 1.5, True, [], {},
    ["x"] * 200,
)  # fmt: skip
METADATA: Final[Json] = {
    "labels": WEB,
    "finalizers": ["a.example/keep"],
    "ownerReferences": [
        {"apiVersion": "v1", "kind": "Namespace", "name": "bank", "uid": "u", "blockOwnerDeletion": True}
    ],
}


class Walk:
    """The writes of a kind: a valid body, and the paths of creates and patches."""

    def __init__(self, path: str, body: Callable[[Wire], Awaitable[Json]], patched: str = "") -> None:
        self.path = path
        self.body = body
        self.patched = patched

    async def send(self, wire: Wire) -> list[int]:
        attacker, sound = wire.node("n1"), await self.body(wire)
        found: list[int] = []
        for body in variants(sound):
            if self.path != self.patched:
                found.append((await attacker.post(self.path, body)).status)
            if self.patched and "metadata" in body:
                found.append((await attacker.patch(self.patched, body)).status)
        return found


def variants(whole: Any, path: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Yield the object, then variants with each part replaced by an extreme value."""
    part = whole
    for step in path:
        part = part[step]
    if not path:
        yield whole
        yield {**whole, "metadata": {**(whole.get("metadata") or {}), **METADATA}}
    for value in VALUES if path and path[0] not in ("apiVersion", "kind") else ():
        yield _with(whole, path, value)
    children = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, _ in children:
        yield from variants(whole, (*path, key))


def _with(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy: Any = [*whole] if isinstance(whole, list) else {**whole}
    copy[path[0]] = _with(whole[path[0]], path[1:], value)
    return copy


def fixed(body: Json) -> Callable[[Wire], Awaitable[Json]]:
    async def made(_: Wire) -> Json:
        return body

    return made


async def mirror(wire: Wire) -> Json:
    body = await mirror_of(wire, "n1", "evil", labels=WEB, requests={"cpu": "1"})
    body["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "name": "web"}]
    body["spec"] |= {"tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 5}
    return body


async def token(wire: Wire) -> Json:
    uid = (await wire.admin.resource(PODS).get("own", "bank"))["metadata"]["uid"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "own", "uid": uid}
    spec = {"audiences": [], "expirationSeconds": 600, "boundObjectRef": bound}
    return kind("authentication.k8s.io/v1", "TokenRequest", spec=spec)


def kind(api_version: str, name: str, **content: Any) -> Json:
    return {"apiVersion": api_version, "kind": name, **content}


ATTRIBUTES = {"namespace": "bank", "verb": "get", "group": "", "resource": "secrets", "name": "x"}
STATUS: Json = {
    "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
    "conditions": [{"type": "Ready", "status": "True"}],
    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    "images": [{"names": ["a"], "sizeBytes": 5}],
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    "runtimeHandlers": [{"name": "gvisor", "features": {"userNamespaces": True}}],
}
POD_STATUS: Json = {"phase": "Running", "podIPs": [{"ip": "203.0.113.6"}], "conditions": STATUS["conditions"]}
CLAIM_STATUS: Json = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "conditions": [{"type": "x", "status": "True"}]}

WALKS: dict[str, Walk] = {
    "tokenreviews": Walk(
        "/apis/authentication.k8s.io/v1/tokenreviews",
        fixed(kind("authentication.k8s.io/v1", "TokenReview", spec={"token": "x", "audiences": ["a"]})),
    ),
    "subjectaccessreviews": Walk(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        fixed(
            kind(
                "authorization.k8s.io/v1",
                "SubjectAccessReview",
                spec={"user": "jane", "groups": ["g"], "extra": {"a": ["b"]}, "resourceAttributes": ATTRIBUTES},
            )
        ),
    ),
    "localsubjectaccessreviews": Walk(
        "/apis/authorization.k8s.io/v1/namespaces/bank/localsubjectaccessreviews",
        fixed(
            kind(
                "authorization.k8s.io/v1",
                "LocalSubjectAccessReview",
                metadata={"namespace": "bank"},
                spec={"user": "jane", "resourceAttributes": ATTRIBUTES},
            )
        ),
    ),
    "nodes": Walk(
        "/api/v1/nodes",
        fixed(
            kind(
                "v1",
                "Node",
                metadata={"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}, "annotations": {"a": "b"}},
                spec={
                    "podCIDR": "10.0.0.0/8",
                    "podCIDRs": ["10.0.0.0/8"],
                    "providerID": "x://y",
                    "unschedulable": False,
                },
            )
        ),
        NODE,
    ),
    "nodes/status": Walk(f"{NODE}/status", fixed({"metadata": {"name": "n1"}, "status": STATUS}), f"{NODE}/status"),
    "events": Walk(
        f"{BANK}/events",
        fixed(
            kind(
                "v1",
                "Event",
                metadata={"name": "e"},
                involvedObject={"kind": "Pod", "name": "own", "namespace": "bank", "uid": "u"},
                reason="x",
                message="y",
                count=1,
                series={"count": 1, "lastObservedTime": "2026-11-17T00:00:00.000000Z"},
            )
        ),
        f"{BANK}/events/e",
    ),
    "pods": Walk(f"{BANK}/pods", mirror),
    "pods/status": Walk(
        f"{BANK}/pods/evil/status",
        fixed({"metadata": {"name": "evil"}, "status": POD_STATUS}),
        f"{BANK}/pods/evil/status",
    ),
    "pods/eviction": Walk(
        f"{BANK}/pods/own/eviction",
        fixed(kind("policy/v1", "Eviction", metadata={"name": "own"}, deleteOptions={"gracePeriodSeconds": 1})),
    ),
    "certificatesigningrequests": Walk(
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        fixed(signing_request(csr("system:node:n1", "system:nodes"))),
    ),
    "leases": Walk(
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
        fixed(
            kind(
                "coordination.k8s.io/v1",
                "Lease",
                metadata={"name": "n1"},
                spec={"holderIdentity": "n1", "leaseDurationSeconds": 40, "renewTime": "2026-11-17T00:00:00.000000Z"},
            )
        ),
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1",
    ),
    "serviceaccounts/token": Walk(f"{BANK}/serviceaccounts/default/token", token),
    "persistentvolumeclaims/status": Walk(
        f"{BANK}/persistentvolumeclaims/disk/status",
        fixed({"metadata": {"name": "disk"}, "status": CLAIM_STATUS}),
        f"{BANK}/persistentvolumeclaims/disk/status",
    ),
    "forwarders/status": Walk(
        "/apis/submariner.io/v1alpha1/namespaces/external-services/forwarders/n2/status",
        fixed({"metadata": {"name": "n2"}, "status": {"conditions": STATUS["conditions"]}}),
        "/apis/submariner.io/v1alpha1/namespaces/external-services/forwarders/n2/status",
    ),
    "gateways/status": Walk(
        "/apis/submariner.io/v1alpha1/namespaces/external-services/gateways/192.0.2.5/status",
        fixed({"metadata": {"name": "192.0.2.5"}, "status": {"nodes": [{"name": "n1", "owner": True, "epoch": 1}]}}),
        "/apis/submariner.io/v1alpha1/namespaces/external-services/gateways/192.0.2.5/status",
    ),
    "publicaddresses/status": Walk(
        f"{NETWORKING}/publicaddresses/203.0.113.5/status",
        fixed({"metadata": {"name": "203.0.113.5"}, "status": {"nodes": [{"name": "n1", "announcing": True}]}}),
        f"{NETWORKING}/publicaddresses/203.0.113.5/status",
    ),
    "bgppeers/status": Walk(
        f"{NETWORKING}/bgppeers/tor/status",
        fixed({"metadata": {"name": "tor"}, "status": {"nodes": [{"name": "n1", "state": "Established"}]}}),
        f"{NETWORKING}/bgppeers/tor/status",
    ),
}


OF_OTHERS = {"forwarders/status", "gateways/status", "publicaddresses/status", "bgppeers/status"}
"""This node does not exist here; tests of NodeRestriction in `tests/admission` try a node's own objects."""


def written() -> set[str]:
    rules = (*NODE_RULES, *CLUSTER_ROLES[NODE_EXTERNAL], *CLUSTER_ROLES[NODE_INGRESS])
    return {name for rule in rules if WRITES & {*rule["verbs"]} for name in rule["resources"]}


def test_every_right_to_write_has_a_walk() -> None:
    assert WALKS.keys() == written()


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        await ready_nodes(running, "n1", "n2", labels={"topology.kubernetes.io/region": "r"})
        for namespace in ("bank", "shop"):
            await tenant(running, namespace)
        body: Json = {"metadata": {"name": "q", "namespace": "bank"}, "spec": {"hard": {"pods": "3"}}}
        await running.admin.resource(QUOTAS).create(kind("v1", "ResourceQuota", **body))
        body = {"metadata": {"name": "web", "namespace": "bank"}, "spec": {"selector": WEB, "ports": [{"port": 80}]}}
        await running.admin.resource(SERVICES).create(kind("v1", "Service", **body))
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = kind("v1", "PersistentVolumeClaim", metadata={"name": "disk", "namespace": "bank"}, spec=spec)
        await running.admin.resource(VOLUME_CLAIMS).create(claim)
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]
        for name, node, labels in (("own", "n1", {}), ("theirs", "n2", WEB)):
            made = pod(name, labels=labels, nodeName=node, volumes=volumes if name == "own" else [])
            made["metadata"]["namespace"] = "bank"
            await running.admin.resource(PODS).create(made)
        status: Json = {"phase": "Running", "podIP": "10.9.0.7", "podIPs": [{"ip": "10.9.0.7"}]}
        status["conditions"] = STATUS["conditions"]
        await running.admin.resource(PODS).patch("theirs", {"status": status}, "bank", subresource="status")
        yield running


async def endpoints(wire: Wire) -> list[str]:
    slices = (await wire.admin.resource(ENDPOINT_SLICES).list("bank")).items
    return [each for one in slices for end in one["endpoints"] or () for each in end["addresses"]]


@pytest.mark.parametrize("resource", sorted(WALKS))
async def test_extreme_writes_leave_a_tenant_alone(wire: Wire, resource: str) -> None:
    if resource == "pods/status":
        await wire.node("n1").post(f"{BANK}/pods", await mirror(wire))
    found = await WALKS[resource].send(wire)
    assert max(found) < 500, found
    assert len(found) > 30
    assert (min(found) < 300) is (resource not in OF_OTHERS), "the first body is valid"
    async with asyncio.timeout(10):
        while await endpoints(wire) != ["10.9.0.7"]:
            await asyncio.sleep(0.05)
    made = pod("mine")
    made["metadata"]["namespace"] = "bank"
    await wire.admin.resource(PODS).create(made)
    assert await placed(wire, "bank", "mine") in ("n1", "n2")
    used = (await wire.admin.resource(QUOTAS).get("q", "bank"))["status"]["used"]
    own = {each["metadata"]["name"] for each in (await wire.admin.resource(PODS).list("bank")).items}
    mirrors = {each for each in own if each not in ("own", "theirs", "mine")}
    assert used == {"pods": str(len(own - mirrors))}
    for path in ("/api/v1/nodes", "/api/v1/pods", "/readyz", "/apis/metrics.k8s.io/v1beta1/nodes"):
        await wire.admin.call("GET", path)
    await wire.admin.resource(PODS).delete("own", "bank", grace=0)
    await wire.admin.resource(PODS).delete("mine", "bank", grace=0)
    await wire.admin.resource(PODS).delete("theirs", "bank", grace=0)
    await wire.admin.resource(NAMESPACES).delete("bank")
    async with asyncio.timeout(10):
        while "bank" in {each["metadata"]["name"] for each in (await wire.admin.resource(NAMESPACES).list()).items}:
            await asyncio.sleep(0.05)
