"""A stolen node blocks no deletion with finalizers and owners, and cannot pass for another node by its labels."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tarmac.client.targets.untyped import NODES
from tests.security.tenants import mirror_of
from tests.security.wire import Json, Wire, csr, serving, signing_request

NODE = "/api/v1/nodes/n1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
EVENTS = "/api/v1/namespaces/default/events"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
FINALIZERS = {"finalizers": ["a.example/keep"]}
OWNERS = {
    "ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": "u", "blockOwnerDeletion": True, "controller": True}
    ]
}


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        for name in ("n1", "n2"):
            await running.admin.resource(NODES).create({"metadata": {"name": name}})
        yield running


async def bodies(wire: Wire) -> dict[str, Json]:
    """An object that a node may create, by the path of its kind."""
    lease: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n1"}}
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    event: Json = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": about}
    return {
        LEASES: {**lease, "spec": {"holderIdentity": "n1"}},
        EVENTS: {**event, "reason": "x", "message": "y"},
        REQUESTS: signing_request(csr("system:node:n1", "system:nodes")),
        "/api/v1/namespaces/default/pods": await mirror_of(wire, "n1", "m"),
        "/api/v1/nodes": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
    }


@pytest.mark.parametrize("metadata", [FINALIZERS, OWNERS], ids=["finalizers", "owners"])
async def test_created_objects_have_neither_finalizers_nor_foreign_owners(wire: Wire, metadata: Json) -> None:
    await wire.admin.resource(NODES).delete("n1")
    await wire.admin.resource(NODES).create({"metadata": {"name": "n1"}})
    for path, body in (await bodies(wire)).items():
        bad = {**body, "metadata": {**body["metadata"], **metadata}}
        answer = await wire.node("n1").post(path, bad)
        assert answer.status == 403, (path, answer)
        assert next(iter(metadata)) in answer.message or "owner reference" in answer.message
    for path, body in (await bodies(wire)).items():
        assert (await wire.node("n1").post(path, body)).status in (201, 409), path


@pytest.mark.parametrize("metadata", [FINALIZERS, OWNERS], ids=["finalizers", "owners"])
@pytest.mark.parametrize("target", [NODE, f"{NODE}/status", f"{LEASES}/n1", f"{EVENTS}/e"])
async def test_updates_add_neither_finalizers_nor_foreign_owners(wire: Wire, target: str, metadata: Json) -> None:
    for path, body in (await bodies(wire)).items():
        await wire.node("n1").post(path, body)
    await wire.node("n1").patch(target, {"metadata": metadata})
    found = (await wire.admin.call("GET", target.removesuffix("/status"))).body
    for field in metadata:
        assert field.encode() not in found


async def test_a_lease_may_belong_to_its_own_node(wire: Wire) -> None:
    uid = (await wire.admin.resource(NODES).get("n1"))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid}
    lease: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "n1"}}
    lease["metadata"] = {"name": "n1", "ownerReferences": [owner]}
    assert (await wire.node("n1").post(LEASES, lease)).status == 201


@pytest.mark.parametrize(
    ("label", "value", "status"),
    [
        ("kubernetes.io/hostname", "n2", 403),
        ("kubernetes.io/hostname", "n1", 200),
        ("tarmac.dev/x", "y", 403),
        ("a.tarmac.dev/x", "y", 403),
        ("compute.datumapis.com/x", "y", 403),
        ("networking.datumapis.com/x", "y", 403),
        ("node.tarmac/x", "y", 403),
        ("compute.datumapis.com/machine-accelerator", "kvm", 200),
        ("disks.example/kind", "nvme", 200),
    ],
)
async def test_labels_of_the_platform_belong_to_administrators(wire: Wire, label: str, value: str, status: int) -> None:
    answer = await wire.node("n1").patch(NODE, {"metadata": {"labels": {label: value}}})
    assert answer.status == status, answer
