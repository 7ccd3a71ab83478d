"""One object of a newer kind causes few writes and requests, with any number of references."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tarmac.base.gates import WAY_IN
from tarmac.client.eventrecorder import BURST
from tarmac.client.targets.untyped import NAMESPACES
from tests.security.tenants import ready_nodes
from tests.security.wire import Json, Wire, serving

NODES = 4
QUIET, LONGEST = 0.8, 20.0  # seconds
CONSTANT = 12
"""Writes beside Events and per-node writes: finalizer, status, allocations and their records."""

SUM = "0" * 64
NAMES = [f"s{number}" for number in range(64)]
SUBMARINER, NETWORKING, COMPUTE = (
    "submariner.io/v1alpha1",
    "networking.datumapis.com/v1alpha",
    "compute.datumapis.com/v1alpha",
)
REPLICAS = 2**31 - 1
TEMPLATE: Json = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "docker.io/i:1"}]}}
SELECTED: Json = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
ANYWHERE = {"ranges": [{"cidr": "203.0.113.0/24"}], "allowedNamespaces": {"selector": {}}}
KINDS: dict[str, tuple[str, str, Json]] = {
    "LocalMachineImage": (
        COMPUTE,
        "localmachineimages",
        {
            "size": "10Gi",
            "format": "raw",
            "source": {"url": "https://images.example.com/a.raw"},
            "checksum": f"sha256:{SUM}",
        },
    ),
    "AddressPool": (NETWORKING, "addresspools", {**ANYWHERE, "announce": "bgp"}),
    "BGPPeer": (NETWORKING, "bgppeers", {"address": "192.0.2.1", "asn": 65001, "localASN": 65002}),
    "PublicAddress": (NETWORKING, "publicaddresses", {"address": "203.0.113.9", "poolName": "none"}),
    "SourceIPClass": (SUBMARINER, "sourceipclasses", {"ranges": [{"cidr": "192.0.2.0/24"}]}),
    "SourceIPClaim": (SUBMARINER, "sourceipclaims", {"className": "none", "families": ["IPv4", "IPv6"]}),
    "ExternalService": (
        SUBMARINER,
        "externalservices",
        {
            "targetIP": "198.51.100.1",
            "ports": [{"port": 80}],
            "sources": [
                {"service": {"name": each, "namespace": f"n-{each}"}, "sourceIPClaim": {"name": "c"}} for each in NAMES
            ],
        },
    ),
    "Deployment": ("apps/v1", "deployments", {"replicas": REPLICAS, **SELECTED}),
    "StatefulSet": ("apps/v1", "statefulsets", {"replicas": REPLICAS, "serviceName": "s", **SELECTED}),
    "DaemonSet": ("apps/v1", "daemonsets", SELECTED),
    "ReplicaSet": ("apps/v1", "replicasets", {"replicas": REPLICAS, **SELECTED}),
    "Job": (
        "batch/v1",
        "jobs",
        {
            "parallelism": REPLICAS,
            "completions": REPLICAS,
            "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}},
        },
    ),
    "HorizontalPodAutoscaler": (
        "autoscaling/v2",
        "horizontalpodautoscalers",
        {"maxReplicas": REPLICAS, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}},
    ),
    "Ingress": ("networking.k8s.io/v1", "ingresses", {"rules": [{"host": f"{each}.example.com"} for each in NAMES]}),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies", {"podSelector": {}}),
}
CLUSTERED = {"AddressPool", "BGPPeer", "PublicAddress", "SourceIPClass"}


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path, WAY_IN) as running:
        labels = {"submariner.io/gateway": "true", "topology.datum.net/location": "dfw"}
        await ready_nodes(running, *(f"n{number}" for number in range(NODES)), labels=labels)
        await running.admin.resource(NAMESPACES).create({"metadata": {"name": "team"}})
        await quiet(running)
        yield running


async def quiet(wire: Wire) -> int:
    """Return the revision of the store once nothing has been written for a while."""
    async with asyncio.timeout(LONGEST):
        while True:
            before = wire.store.revision
            await asyncio.sleep(QUIET)
            if wire.store.revision == before:
                return before


async def requests(wire: Wire) -> int:
    """Return the number of requests that the server has answered, including those of controllers."""
    text = (await wire.admin.call("GET", "/metrics")).body.decode()
    return sum(
        int(float(number)) for number in re.findall(r"^apiserver_request_total\{.*\} (\S+)$", text, re.MULTILINE)
    )


async def caused(wire: Wire, kind: str) -> tuple[int, int]:
    """Create one object; return the writes and requests until all is quiet."""
    version, plural, spec = KINDS[kind]
    place = "" if kind in CLUSTERED else "namespaces/team/"
    name = "203.0.113.9" if kind == "PublicAddress" else "evil"
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
    before, asked = await quiet(wire), await requests(wire)
    answer = await wire.attacker(wire.pki.admin()).post(f"/apis/{version}/{place}{plural}", body)
    assert answer.status == 201, answer
    return await quiet(wire) - before, await requests(wire) - asked


async def test_one_object_causes_few_writes(wire: Wire) -> None:
    found = {kind: await caused(wire, kind) for kind in KINDS}
    print("", *(f"{kind}: {writes} writes, {made} requests" for kind, (writes, made) in found.items()), sep="\n")
    for kind, (writes, made) in found.items():
        assert 1 <= writes <= CONSTANT + NODES + BURST, kind
        assert made <= CONSTANT + 2 * NODES + BURST, kind
    few = [writes for kind, (writes, _) in found.items() if kind != "ExternalService"]
    assert max(few) <= CONSTANT + NODES, (
        "only an object with 64 sources has an Event for each, up to the limit of an object"
    )
