"""Nodes that take pods, and tenants with the role `edit` in a namespace of their own."""

from __future__ import annotations

import asyncio
from typing import Any

from tarmac.api.mirrorpods import MIRROR
from tarmac.base.clock import SystemClock, rfc3339_micro
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from tests.security.wire import Attacker, Json, Wire

BINDINGS = dynamic("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")
_RBAC = "rbac.authorization.k8s.io"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


async def ready_nodes(wire: Wire, *names: str, labels: dict[str, str] | None = None) -> None:
    """Nodes with room for pods, as their agents report them."""
    handlers = [{"name": name} for name in ("", "runc", "gvisor")]
    size = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    for number, name in enumerate(names, 1):
        own = {"kubernetes.io/hostname": name, **(labels or {})}
        await wire.admin.resource(NODES).create({"metadata": {"name": name, "labels": own}})
        status: Json = {"capacity": size, "allocatable": size, "runtimeHandlers": handlers}
        status["addresses"] = [{"type": "InternalIP", "address": f"10.0.0.{number}"}]
        status["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        assert (await wire.node(name).patch(f"/api/v1/nodes/{name}/status", {"status": status})).status == 200
        lease: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
        renewed = rfc3339_micro(SystemClock().now())
        lease["spec"] = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed}
        assert (await wire.node(name).post(_LEASES, lease)).status == 201
    async with asyncio.timeout(15):
        for name in names:
            while (await wire.admin.resource(NODES).get(name))["spec"].get("taints"):
                await asyncio.sleep(0.05)


async def tenant(wire: Wire, namespace: str, role: str = "edit") -> Attacker:
    """A user with a role in a new namespace."""
    await wire.admin.resource(NAMESPACES).create({"metadata": {"name": namespace}})
    user = f"user-of-{namespace}"
    reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role}
    body: Json = {"metadata": {"name": role, "namespace": namespace}, "roleRef": reference}
    body["subjects"] = [{"kind": "User", "name": user, "apiGroup": _RBAC}]
    await wire.admin.resource(BINDINGS).create({"apiVersion": BINDINGS.api_version, "kind": BINDINGS.kind, **body})
    accounts = wire.admin.resource(SERVICE_ACCOUNTS)
    async with asyncio.timeout(15):  # admission rejects Pods until the controllers have created the default account
        while not (await accounts.list(namespace, fields="metadata.name=default")).items:
            await asyncio.sleep(0.02)
    return wire.attacker(wire.pki.authority.issue_client(user, (), SystemClock().now()))


def pod(
    name: str, *, labels: dict[str, str] | None = None, requests: dict[str, str] | None = None, **spec: Any
) -> Json:
    """A Pod of one container."""
    container = {"name": "c", "image": "i", "resources": {"requests": requests or {}}}
    metadata: Json = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


async def mirror_of(wire: Wire, node: str, name: str, **more: Any) -> Json:
    """A Pod as a node may create it: the mirror of a static one."""
    more.setdefault("nodeName", node)
    body = pod(name, **more)
    uid = (await wire.admin.resource(NODES).get(node))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
    body["metadata"] |= {"annotations": {MIRROR: "x"}, "ownerReferences": [owner]}
    return body


async def placed(wire: Wire, namespace: str, name: str, seconds: float = 5) -> str:
    """Return the node that a Pod gets within some seconds; else the scheduler's message."""
    found: Json = {}
    try:
        async with asyncio.timeout(seconds):
            while not found.get("spec", {}).get("nodeName"):
                await asyncio.sleep(0.05)
                found = await wire.admin.resource(PODS).get(name, namespace)
    except TimeoutError:
        told = found.get("status", {}).get("conditions", [])
        return next((each["message"] for each in told if each["type"] == "PodScheduled"), "no decision")
    return found["spec"]["nodeName"]
