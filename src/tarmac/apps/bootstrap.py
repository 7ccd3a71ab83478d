"""The initial objects of every server, created through the API, and again if they are missing.

Changes by an administrator are kept: an existing object is never overwritten, and a RuntimeClass only gets fields that
a newer server needs and that it lacks. The catalogues of instance types and machine images are maintained by their
controllers afterwards, since Workloads rely on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from tarmac.api.compute.instancetype import built_in
from tarmac.api.compute.machineimage import built_in_images
from tarmac.api.compute.names import LOCAL_DISKS, STORAGE_CLASS
from tarmac.api.egress.names import NAMESPACE as EXTERNAL_SERVICES
from tarmac.api.kubernetes.flowcontrol.mandatory import AUTO_UPDATE, LEVELS, SCHEMAS
from tarmac.api.kubernetes.networking.addresses import DEFAULT_RANGE
from tarmac.api.kubernetes.priorityclasses import SYSTEM
from tarmac.api.kubernetes.runtimeclasses import CLASSES, OVERHEADS
from tarmac.api.networking.names import ANNOTATION_DEFAULT_NETWORK, SERVICE_RANGES
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists
from tarmac.client.client import Client
from tarmac.client.targets.target import dynamic

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_STORAGE_CLASS: JsonObject = {
    "provisioner": LOCAL_DISKS,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowVolumeExpansion": True,
}
SERVICE_ADDRESS = "10.96.0.1"
_FIELD_MANAGER = "tarmac-bootstrap"


def _named(api_version: str, kind: str, name: str, **content: object) -> JsonObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def _of_the_cluster() -> Iterable[tuple[str, JsonObject]]:
    for name in _NAMESPACES:
        yield "namespaces", _named("v1", "Namespace", name)
    apart = _named("v1", "Namespace", EXTERNAL_SERVICES)
    apart["metadata"]["annotations"] = {ANNOTATION_DEFAULT_NETWORK: "none"}  # tenants' Pods never run there
    yield "namespaces", apart
    for name, content in SYSTEM.items():
        yield "priorityclasses", _named("scheduling.k8s.io/v1", "PriorityClass", name, value=content["value"])
    for plural, kind, specs in (
        ("prioritylevelconfigurations", "PriorityLevelConfiguration", LEVELS),
        ("flowschemas", "FlowSchema", SCHEMAS),
    ):
        for name, spec in specs.items():
            mandatory = _named("flowcontrol.apiserver.k8s.io/v1", kind, name, spec=spec)
            mandatory["metadata"]["annotations"] = {AUTO_UPDATE: "true"}
            yield plural, mandatory
    yield (
        "servicecidrs",
        _named("networking.k8s.io/v1", "ServiceCIDR", DEFAULT_RANGE, spec={"cidrs": [*SERVICE_RANGES]}),
    )


def _of_workloads() -> Iterable[tuple[str, JsonObject]]:
    for name in CLASSES:
        overhead = {"overhead": {"podFixed": OVERHEADS[name]}} if name in OVERHEADS else {}
        yield "runtimeclasses", _named("node.k8s.io/v1", "RuntimeClass", name, handler=name, **overhead)
    for body in built_in():
        yield "instancetypes", body
    for body in built_in_images():
        yield "machineimages", body


async def ensure_initial_objects(client: Client) -> None:
    """Create missing objects. Existing ones stay as they are: they may have been changed on purpose."""
    await _ensure(client, _of_the_cluster())
    await ensure_objects_of_workloads(client)


async def ensure_objects_of_workloads(client: Client) -> None:
    """Create the objects that Workloads rely on: the only ones created in a foreign cluster."""
    await _ensure(client, _of_workloads())
    await _ensure_overheads(client)


async def _ensure_overheads(client: Client) -> None:
    """Add overheads to classes of an earlier server, without which Pods would run out of memory. Existing ones stay."""
    classes = client.resource(dynamic("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", namespaced=False))
    for name, overhead in OVERHEADS.items():
        found = await classes.get(name)
        if not found.get("overhead") and found.get("handler") == name:
            await classes.patch(name, {"overhead": {"podFixed": overhead}}, type="merge", manager=_FIELD_MANAGER)


async def _ensure(client: Client, wanted: Iterable[tuple[str, JsonObject]]) -> None:
    for plural, body in wanted:
        target = dynamic(body["apiVersion"], plural, body["kind"], namespaced=False)
        with suppress(AlreadyExists):
            await client.resource(target).create(body, manager=_FIELD_MANAGER)


async def ensure_local_disks(client: Client) -> None:
    """Create the StorageClass of local disks, which only Tarmac's own nodes provide."""
    body = _named("storage.k8s.io/v1", "StorageClass", STORAGE_CLASS, **_STORAGE_CLASS)
    target = dynamic("storage.k8s.io/v1", "storageclasses", "StorageClass", namespaced=False)
    with suppress(AlreadyExists):
        await client.resource(target).create(body, manager=_FIELD_MANAGER)


async def ensure_own_service(client: Client, port: int) -> None:
    """Create the Service `default/kubernetes`. The running servers publish its endpoints."""
    ports = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]
    service = _named("v1", "Service", "kubernetes", spec={"clusterIP": SERVICE_ADDRESS, "ports": ports})
    service["metadata"] |= {"namespace": "default", "labels": {"component": "apiserver", "provider": "kubernetes"}}
    with suppress(AlreadyExists):
        await client.resource(dynamic("v1", "services", "Service")).create(service, manager=_FIELD_MANAGER)
