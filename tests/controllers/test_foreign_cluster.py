"""`tarmac controllers` beside a stock kube-apiserver changes no object that does not belong to a Workload.

The controllers have exactly the rights that `tarmac crds --rbac` prints. The cluster has Nodes, Pods, Services and many
other objects of its own; this test is its kubelet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.compute.names import API_VERSION as COMPUTE
from tarmac.api.networking.names import ANNOTATION_INTERFACES, LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.client.client import Client
from tarmac.client.discovery import discover
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.target import Target, dynamic
from tarmac.client.targets.untyped import LOCATIONS, NODES, PODS
from tarmac.controllers.manager import WORKLOADS as OF_WORKLOADS
from tarmac.sim.nodes.locationobjects import location
from tarmac.sim.nodes.settings import SimLocation
from tests.controllers.planet import INSTANCES, NETWORKS, WORKLOADS, workload
from tests.support.controllers_process import running_controllers
from tests.support.peer import Peer, running_peer
from tests.support.roles import install_kinds, install_roles, kubeconfig, token

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]

Versions = dict[tuple[str, str, str], str]
OWN = "others"
ADDRESSES = ("10.244.1.7", "fd00:10:244::7")
RUNNING = {"phase": "Running", "podIP": "10.244.1.5", "podIPs": [{"ip": "10.244.1.5"}]}
# Objects that kube-apiserver itself writes while it runs, and records of events.
RESTLESS = {
    "leases",
    "events",
    "flowschemas",
    "prioritylevelconfigurations",
    "apiservices",
    "ipaddresses",
    "servicecidrs",
}
QUICK = (
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=500ms",
)


def _objects() -> list[tuple[str, str, str, JsonObject]]:
    """Yield objects of the cluster: apiVersion, plural, kind, object."""
    container = {"name": "c", "image": "example.com/app:1", "resources": {"requests": {"cpu": "1"}}}
    selector: JsonObject = {"app": "theirs"}
    account: JsonObject = {"serviceAccountName": "default", "automountServiceAccountToken": False}
    node = {"metadata": {"name": "theirs", "labels": {LABEL_LOCATION: "dfw"}}, "spec": {"podCIDR": "10.244.1.0/24"}}
    low = {"metadata": {"name": "least"}, "value": -100}
    on_node = {"containers": [container], "nodeName": "theirs", "priorityClassName": "least", **account}
    waiting = {"containers": [container], **account}
    port = {"port": 80, "protocol": "TCP"}
    serving = {"selector": selector, "ports": [port]}
    ready = {"addresses": ["10.244.1.5"], "conditions": {"ready": True}}
    return [
        ("v1", "nodes", "Node", node),
        ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", low),
        ("v1", "serviceaccounts", "ServiceAccount", {"metadata": {"name": "default"}}),
        ("v1", "pods", "Pod", {"metadata": {"name": "runs", "labels": selector}, "spec": on_node}),
        ("v1", "pods", "Pod", {"metadata": {"name": "waits", "labels": selector}, "spec": waiting}),
        ("v1", "services", "Service", {"metadata": {"name": "theirs"}, "spec": serving}),
        ("v1", "endpoints", "Endpoints", {"metadata": {"name": "theirs"}, "subsets": []}),
        (
            "discovery.k8s.io/v1", "endpointslices", "EndpointSlice",
            {"metadata": {"name": "theirs"}, "addressType": "IPv4", "endpoints": [ready], "ports": [port]},
        ),
        ("v1", "configmaps", "ConfigMap", {"metadata": {"name": "theirs"}, "data": {"a": "b"}}),
        ("v1", "resourcequotas", "ResourceQuota", {"metadata": {"name": "theirs"}, "spec": {"hard": {"pods": "9"}}}),
        (
            "v1", "persistentvolumeclaims", "PersistentVolumeClaim",
            {
                "metadata": {"name": "theirs"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            },
        ),
        (
            "policy/v1", "poddisruptionbudgets", "PodDisruptionBudget",
            {"metadata": {"name": "theirs"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": selector}}},
        ),
        ("apps/v1", "deployments", "Deployment", _deployment(container, selector)),
    ]  # fmt: skip


def _deployment(container: JsonObject, selector: JsonObject) -> JsonObject:
    template = {"metadata": {"labels": selector}, "spec": {"containers": [container]}}
    return {"metadata": {"name": "theirs"}, "spec": {"selector": {"matchLabels": selector}, "template": template}}


async def _populate(client: Client) -> None:
    namespace = dynamic("v1", "namespaces", "Namespace", namespaced=False)
    await client.resource(namespace).create({"metadata": {"name": OWN}})
    cluster_wide = {"Node", "PriorityClass"}
    for api_version, plural, kind, obj in _objects():
        target = dynamic(api_version, plural, kind, namespaced=kind not in cluster_wide)
        where = "" if kind in cluster_wide else OWN
        await client.resource(target).create(
            {**obj, "metadata": {**obj["metadata"], **({"namespace": where} if where else {})}}
        )
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    status = {"conditions": [ready], "capacity": room, "allocatable": room}
    await client.resource(NODES).patch("theirs", {"status": status}, subresource="status")
    untainted = {"spec": {"taints": None}}
    await client.resource(NODES).patch("theirs", untainted)
    await client.resource(PODS).patch("runs", {"status": RUNNING}, OWN, subresource="status")
    await client.resource(dynamic("v1", "serviceaccounts", "ServiceAccount")).create(
        {"metadata": {"name": "default", "namespace": "default"}}
    )


async def _versions(client: Client) -> Versions:
    """Return the version of every object."""
    found: Versions = {}
    for served in (await discover(client)).with_verbs("list", "get", "delete"):
        target: Target[JsonObject] = served.target
        if target.plural in RESTLESS:
            continue
        for each in (await client.resource(target).list()).items:
            own = each["metadata"]
            found[f"{target.plural}.{target.group}", own.get("namespace", ""), own["name"]] = own["resourceVersion"]
    return found


async def _until(what: str, check: Callable[[], Awaitable[Any]], seconds: float = 60) -> Any:
    async with asyncio.timeout(seconds):
        while True:
            found = await check()
            if found:
                return found
            await asyncio.sleep(0.1)
    raise AssertionError(what)


async def _kubelet(client: Client, pod: JsonObject) -> None:
    """Report the pod as running, at addresses of the cluster's plugin."""
    own, names = pod["metadata"], [each["name"] for each in pod["spec"]["containers"]]
    status = {
        "phase": "Running",
        "podIP": ADDRESSES[0],
        "podIPs": [{"ip": each} for each in ADDRESSES],
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodReadyToStartContainers", "status": "True"}],
        "containerStatuses": [
            {"name": name, "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": {"running": {}}}
            for name in names
        ],
    }
    await client.resource(PODS).patch(own["name"], {"status": status}, own["namespace"], subresource="status")


async def _use(client: Client) -> JsonObject:
    """Create a Workload, wait until it runs and delete it; return its running Instance."""
    await client.resource(LOCATIONS).create(location(SimLocation("dfw", "DFW", 0)))
    made = workload(replicas=1)
    await client.resource(WORKLOADS).create(made)
    pods, instances = client.resource(PODS), client.resource(INSTANCES)

    async def bound() -> JsonObject | None:
        return next((each for each in (await pods.list("default")).items if each["spec"].get("nodeName")), None)

    pod = await _until("a node", bound)
    await _kubelet(client, pod)

    async def ready() -> JsonObject | None:
        found = (await instances.list("default")).items
        return next((each for each in found if _summary(each) == "Running"), None)

    instance = await _until("a ready Instance", ready)
    await client.resource(WORKLOADS).delete("web", "default")
    await _until("the end of the Pod", lambda: _going(client, pod))
    await pods.delete(pod["metadata"]["name"], "default", grace=0)

    async def gone() -> bool:
        return not (await client.resource(WORKLOADS).list("default")).items

    await _until("the end of the Workload", gone)
    return instance


def _summary(instance: JsonObject) -> str:
    return ((instance.get("status") or {}).get("summary") or {}).get("status", "")


async def _going(client: Client, pod: JsonObject) -> bool:
    found = await client.resource(PODS).get(pod["metadata"]["name"], "default")
    return found["metadata"].get("deletionTimestamp") is not None


async def _story(peer: Peer, folder: Path) -> None:
    client = Client(HttpTransport(load(str(peer.kubeconfig)).http))
    try:
        await install_kinds(client)
        await install_roles(client, OF_WORKLOADS)
        own, log = folder / "controllers.kubeconfig", folder / "controllers.log"
        own.write_text(kubeconfig(peer, await token(client)))
        await _populate(client)
        before = await _versions(client)
        with running_controllers(own, log, *QUICK):
            instance = await _use(client)
            after = await _versions(client)
            networks = (await client.resource(NETWORKS).list()).items
            told = (await client.resource(dynamic("v1", "events", "Event")).list(OWN)).items
            theirs = await client.resource(PODS).get("runs", OWN)
        _judge(instance, before, after, log.read_text())
        assert [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in networks] == [
            ("default", "default")
        ]
        assert not told
        assert ANNOTATION_INTERFACES not in (theirs["metadata"].get("annotations") or {})
    finally:
        await client.close()


def _judge(instance: JsonObject, before: Versions, after: Versions, log: str) -> None:
    changed = {key: (version, after.get(key)) for key, version in before.items() if after.get(key) != version}
    assert not changed, "foreign objects were changed"
    new = {(kind, namespace) for kind, namespace, _ in after.keys() - before.keys()}
    ours = {(kind, namespace) for kind, namespace in new if "datumapis.com" in kind}
    # the templates of a Workload's revisions are its own
    assert new - ours == {("runtimeclasses.node.k8s.io", ""), ("controllerrevisions.apps", "default")}
    assert {namespace for _, namespace in ours} <= {"", "default"}
    (interface,) = instance["status"]["networkInterfaces"]
    assert interface["assignments"] == {"networkIP": ADDRESSES[0]}
    assert [each["address"] for each in interface["addresses"]] == ["10.244.1.7/32", "fd00:10:244::7/128"]
    assert instance["apiVersion"] == COMPUTE
    trouble = [line for line in log.splitlines() if "failed" in line or "orbidden" in line or "begins again" in line]
    assert not trouble, "\n".join(trouble[:5])


def test_only_what_belongs_to_workloads_is_touched(tmp_path: Path) -> None:
    with running_peer() as peer:
        asyncio.run(_story(peer, tmp_path))
