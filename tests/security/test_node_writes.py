"""A table lists everything that a node may write, and extreme values of all of it harm only that node.

A stolen certificate of node n1 makes the attack. Before and after it the test reads the same objects of other nodes:
Nodes, Pods, Networks and the lists that every node reads.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.egress.names import ANNOTATION_NODE_FACTS
from tarmac.api.identities import KEY_OF_NODE, RESTORED, TOKEN_OF_NODE, VERSION
from tarmac.api.kubernetes.core.nodeclasses import FIELDS, RESOURCES_ANNOTATION
from tarmac.api.kubernetes.core.nodedevices import ANNOTATION_DEVICES
from tarmac.api.networking.names import ANNOTATION_UNDERLAY_MTU
from tarmac.api.networking.tunnels import ANNOTATION_TUNNEL
from tarmac.api.nodetokens import DELETE_DISKS, LEAVING
from tarmac.api.restored import running_path
from tarmac.api.rotations import TRUSTS
from tarmac.client.targets.untyped import NETWORKS, NODES, PODS, SERVICE_ACCOUNTS, VOLUME_CLAIMS
from tarmac.server.security.authorization.policy import CLUSTER_ROLES, NODE_EXTERNAL, NODE_INGRESS, NODE_RULES
from tests.security.wire import Json, Wire, serving

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "security.md"
READS = {"get", "list", "watch"}
BESIDE_RULES = {
    "persistentvolumes",
    "/tarmac/v1/nodes/NAME/running",
    "/metrics/resource",
    "/tarmac/v1/external/connections",
}
"""Objects that the node authorizer decides one by one, an endpoint of the server, and paths that nodes serve."""

NODE = "/api/v1/nodes/n1"
ANNOTATIONS = (
    VERSION,
    TRUSTS,
    DELETE_DISKS,
    ANNOTATION_NODE_FACTS,
    ANNOTATION_UNDERLAY_MTU,
    RESOURCES_ANNOTATION,
    ANNOTATION_DEVICES,
    ANNOTATION_TUNNEL,
    RESTORED,
    TOKEN_OF_NODE,
    KEY_OF_NODE,
)
DEEP = "[" * 5000 + "]" * 5000
TEXTS = (
    "",
    "x" * 100_000,
    "{}",
    "[]",
    "null",
    "-1",
    "1e308",
    str(2**63),
    "9" * 5000,
    "\x00\u202e\n",
    DEEP,
    '{"a":1e999}',
    '{"probes":true,"encryption":"none","publicKey":"x"}',
)
VALUES: tuple[Any, ...] = (
    None,
    *TEXTS[:3],
    -1,
    0,
    2**63 - 1,
    2**70,
    1.5,
    True,
    [],
    {},
    [[]] * 50,
    {"": ""},
    ["x"] * 5000,
)


def test_the_table_names_every_write_that_nodes_have_a_right_to() -> None:
    header = "| a node writes | reader | worst effect on the rest of the cluster |\n|---|---|---|\n"
    table = PAGE.read_text().partition(header)[2]
    listed = {
        name for row in table.partition("\n\n")[0].splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])
    }
    granted = {
        name
        for rule in (*NODE_RULES, *CLUSTER_ROLES[NODE_EXTERNAL], *CLUSTER_ROLES[NODE_INGRESS])
        if set(rule["verbs"]) - READS
        for name in rule["resources"]
    }
    annotations = {*ANNOTATIONS, LEAVING} - {RESTORED, TOKEN_OF_NODE, KEY_OF_NODE}
    assert listed == granted | BESIDE_RULES | annotations


STATUS: Json = {
    "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "1"},
    "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastHeartbeatTime": None},
        {"type": "MachinesReady", "status": "True", "reason": "MachinesRun", "message": "m"},
        {"type": "TunnelsReachable", "status": "False", "reason": "r", "message": "4789/udp to n2 is closed"},
    ],
    "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    "nodeInfo": {"kubeletVersion": "v1.35.0", "architecture": "amd64", "operatingSystem": "linux"},
    "images": [{"names": ["a"], "sizeBytes": 5}],
    "phase": "Running",
    **{field: [] for field in FIELDS},
}
POD_STATUS: Json = {
    "phase": "Running",
    "podIP": "10.0.0.7",
    "podIPs": [{"ip": "10.0.0.7"}],
    "hostIP": "10.0.0.1",
    "startTime": "2026-11-17T00:00:00Z",
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-17T00:00:00Z"}],
    "containerStatuses": [{"name": "c", "restartCount": 1, "ready": True, "image": "i", "imageID": "i"}],
    "qosClass": "BestEffort",
}
LEASE: Json = {"holderIdentity": "n1", "leaseDurationSeconds": 40, "renewTime": "2026-11-17T00:00:00.000000Z"}


def variants(whole: Any, path: tuple[Any, ...] = ()) -> Iterator[Json]:
    """Yield the object with each of its parts replaced by each extreme value, one at a time."""
    part = whole
    for step in path:
        part = part[step]
    if not path:
        yield whole
    for value in VALUES if path else ():
        yield _with(whole, path, value)
    children = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, _ in children:
        yield from variants(whole, (*path, key))


def _with(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = list(whole) if isinstance(whole, list) else dict(whole)
    copy[path[0]] = _with(whole[path[0]], path[1:], value)
    return copy


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        account: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        account["metadata"]["namespace"] = "default"
        await running.admin.resource(SERVICE_ACCOUNTS).apply(account, manager="test")
        for name, address in (("n1", "10.0.0.1"), ("n2", "10.0.0.2")):
            await running.admin.resource(NODES).create({"metadata": {"name": name}})
            entries = [{"type": "InternalIP", "address": address}]
            await running.admin.resource(NODES).patch(name, {"status": {"addresses": entries}}, subresource="status")
            await running.admin.resource(PODS).create(pod(f"on-{name}", name))
        body: Json = {"apiVersion": NETWORKS.api_version, "kind": "Network", "metadata": {"name": "mine"}}
        body["spec"] = {"ipam": {"mode": "Policy", "ipv4Range": "203.0.113.0/24"}}
        await running.admin.resource(NETWORKS).create(body, namespace="default")
        async with asyncio.timeout(10):
            while not await network_ready(running):
                await asyncio.sleep(0.02)
        yield running


def pod(name: str, node: str) -> Json:
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "busybox"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def network_ready(wire: Wire) -> bool:
    status = (await wire.admin.resource(NETWORKS).get("mine", "default")).get("status") or {}
    return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ())


LISTS = (
    "/api/v1/nodes",
    "/api/v1/pods",
    "/apis/metrics.k8s.io/v1beta1/nodes",
    "/apis/metrics.k8s.io/v1beta1/pods",
    "/apis/networking.datumapis.com/v1alpha/podendpoints",
    "/apis/networking.datumapis.com/v1alpha/tunnelendpoints",
    "/apis/networking.datumapis.com/v1alpha/locations",
    "/api/v1/nodes/n2/ledger",
    "/api/v1/namespaces/default/pods/on-n2/why",
    "/metrics",
    "/readyz",
)


async def of_others(wire: Wire) -> dict[str, Any]:
    """Check that the server answers, and return the state that must not change."""
    for path in LISTS:
        await wire.admin.call("GET", path)
    for peer in ("on-n1", "on-n2"):
        asked = {"reach": f"pod/default/{peer}", "port": "80"}
        await wire.admin.get_json("/api/v1/namespaces/default/pods/on-n2/why", asked)
    node, theirs = await wire.admin.resource(NODES).get("n2"), await wire.admin.resource(PODS).get("on-n2", "default")
    own = await wire.admin.resource(PODS).get("on-n1", "default")
    kept = {key: own["metadata"].get(key) for key in ("labels", "finalizers", "ownerReferences", "uid")}
    network = await wire.admin.resource(NETWORKS).get("mine", "default")
    spec = {key: value for key, value in node["spec"].items() if key != "taints"}
    # The node controller taints a node without heartbeats, sooner or later.
    taints = [each for each in node["spec"].get("taints") or () if not each["key"].startswith("node.kubernetes.io/")]
    return {
        "node": [node["metadata"].get("labels"), spec, taints, node["status"].get("addresses")],
        "endpoints": [await shown(wire, "tunnelendpoints", "n2"), await shown(wire, "podendpoints", "on-n2")],
        "pod": [theirs["metadata"].get("labels"), theirs["spec"], (theirs.get("status") or {}).get("podIPs")],
        "own": kept,
        "network": [network["spec"], network["status"]["ipv4Range"], await network_ready(wire)],
    }


async def shown(wire: Wire, plural: str, name: str) -> Json:
    """Return the object that other nodes read of a Node or Pod, without version and fields of the node controller."""
    found = await wire.admin.get_json(f"/apis/networking.datumapis.com/v1alpha/{plural}", {})
    (one,) = [each for each in found["items"] if each["metadata"]["name"] == name]
    return {key: value for key, value in one.items() if key not in ("metadata", "ready")}


async def attack(wire: Wire, target: str, bodies: Iterator[Json]) -> dict[int, int]:
    """Send every body, of which the first is valid; return how often each status came back."""
    counted: dict[int, int] = {}
    attacker = wire.node("n1")
    sound = await attacker.patch(target, next(bodies))
    assert sound.status == 200, sound
    for body in bodies:
        try:
            json.dumps(body).encode()
        except ValueError:
            continue
        answer = await attacker.patch(target, body)
        assert answer.status < 500, (body, answer)
        counted[answer.status] = counted.get(answer.status, 0) + 1
    return counted


async def test_extreme_annotations_of_a_node(wire: Wire) -> None:
    before = await of_others(wire)
    bodies = [{"metadata": {"annotations": {name: text}}} for name in ANNOTATIONS for text in TEXTS]
    found = await attack(wire, NODE, iter([{"metadata": {"annotations": {VERSION: "0.1"}}}, *bodies]))
    assert set(found) == {200, 403}, "some are the node's own, the rest is rejected"
    assert await of_others(wire) == before


async def test_extreme_statuses_of_a_node(wire: Wire) -> None:
    before = await of_others(wire)
    found = await attack(wire, f"{NODE}/status", ({"status": each} for each in variants(STATUS)))
    assert sum(found.values()) > 300
    assert 200 in found
    assert await of_others(wire) == before


async def test_extreme_statuses_of_its_own_pods(wire: Wire) -> None:
    before = await of_others(wire)
    target = "/api/v1/namespaces/default/pods/on-n1/status"
    found = await attack(wire, target, ({"status": each} for each in variants(POD_STATUS)))
    assert sum(found.values()) > 200
    assert await of_others(wire) == before
    for field, value in (("finalizers", ["a.example/keep"]), ("labels", {"a": "b"}), ("ownerReferences", [])):
        answer = await wire.node("n1").patch(target, {"metadata": {field: value}})
        assert answer.status in (200, 403), answer
    assert await of_others(wire) == before


@pytest.mark.parametrize("where", ["pod", "claim"])
async def test_a_node_puts_no_finalizer_on_what_it_reports_of(wire: Wire, where: str) -> None:
    """An ownerless object, and its namespace, would stay long after the node was removed."""
    target = "/api/v1/namespaces/default/pods/on-n1/status"
    if where == "claim":
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim: Json = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec}
        await wire.admin.resource(VOLUME_CLAIMS).create({**claim, "metadata": {"name": "disk", "namespace": "default"}})
        user = pod("with-disk", "n1")
        user["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]
        await wire.admin.resource(PODS).create(user)
        target = "/api/v1/namespaces/default/persistentvolumeclaims/disk/status"
    answer = await wire.node("n1").patch(target, {"metadata": {"finalizers": ["a.example/keep"]}})
    assert (answer.status, "finalizers" in answer.message) == (403, True), answer


async def test_extreme_leases_events_and_requests(wire: Wire) -> None:
    before = await of_others(wire)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n1"}, "spec": LEASE}
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    assert (await wire.node("n1").post(leases, lease)).status in (201, 409)
    await attack(wire, f"{leases}/n1", ({"spec": each} for each in variants(LEASE)))
    for method_body in variants({"restored": "x", "pods": [pod("a", "n1")], "waiting": ["a/b"]}):
        assert (await wire.node("n1").post(running_path("n1"), method_body)).status in (400, 409, 413)
    assert await of_others(wire) == before
