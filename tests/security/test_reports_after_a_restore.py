"""A stolen node certificate reports invented pods: without a restore, after one, and for an administrator to adopt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tarmac.api.compute.names import ANNOTATION_MACHINE_IMAGES
from tarmac.api.identities import RESTORED, TOKEN_OF_NODE
from tarmac.api.networking.interfaces import AttachedInterface, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.restored import RESTORED_PATH, RESTORES, running_path
from tarmac.api.status import ApiError, Conflict, Forbidden, Invalid
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NAMESPACES, NETWORKS, NODES, PODS, SERVICE_ACCOUNTS
from tests.cost.measuring import ALLOWED, at_best, longest_turn
from tests.security.wire import Answer, Json, Wire, serving

TIME = "2026-11-17T02:00:00Z"
NODE = "/api/v1/nodes/n1"


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        for name in ("n1", "n2"):
            await running.admin.resource(NODES).create({"metadata": {"name": name}})
        await running.admin.resource(NAMESPACES).create({"metadata": {"name": "shop"}})
        await running.admin.resource(SERVICE_ACCOUNTS).apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}},
            manager="test",
        )
        yield running


async def restored(wire: Wire) -> None:
    """Write the record that `tarmac restore` leaves."""
    note = json.dumps({"metadata": {"name": RESTORES[1]}, "time": TIME}, separators=(",", ":"))
    await wire.store.create(*RESTORES, note.encode())


def pod(name: str = "web", uid: str = "1", annotations: Json | None = None, **spec: Any) -> Json:
    metadata: Json = {"name": name, "namespace": "shop", "uid": f"5a0e0e5c-0000-4000-8000-00000000000{uid}"}
    if annotations:
        metadata["annotations"] = annotations
    container = {"name": "c", "image": "busybox", **spec.pop("container", {})}
    return {"metadata": metadata, "spec": {"containers": [container], "nodeName": "n1", **spec}}


async def report(wire: Wire, *pods: Json, node: str = "n1") -> Answer:
    return await wire.node(node).post(running_path(node), {"restored": TIME, "pods": list(pods)})


async def held(wire: Wire) -> list[tuple[str, str]]:
    found = json.loads((await wire.admin.call("GET", RESTORED_PATH)).body)["items"]
    return [(each["name"], each["node"]) for each in found]


async def decide(wire: Wire, action: str, name: str = "web", node: str = "") -> None:
    decision = {"action": action, "namespace": "shop", "name": name, "node": node}
    await wire.admin.call("POST", RESTORED_PATH, body=msgspec.json.encode(decision))


async def create(wire: Wire, name: str = "web") -> None:
    await wire.admin.resource(PODS).create({**pod(name), "metadata": {"name": name, "namespace": "shop"}})


async def test_a_node_cannot_declare_a_restore(wire: Wire) -> None:
    attacker = wire.node("n1")
    for annotation in (RESTORED, TOKEN_OF_NODE, "tarmac.dev/invented", "sub.tarmac.dev/x"):
        for target in (NODE, f"{NODE}/status"):
            answer = await attacker.patch(target, {"metadata": {"annotations": {annotation: TIME}}})
            assert (answer.status, f"metadata.annotations[{annotation}]" in answer.message) == (403, True), answer
    assert (await report(wire, pod())).status == 409
    await create(wire)


async def test_the_servers_record_decides_and_not_the_annotation(wire: Wire) -> None:
    """An administrator, or an earlier version, may have let the annotation in."""
    await wire.admin.resource(NODES).patch("n1", {"metadata": {"annotations": {RESTORED: TIME}}})
    assert (await report(wire, pod())).status == 409
    await create(wire)


async def test_a_node_may_not_register_with_the_annotation_and_learns_it_from_the_server(wire: Wire) -> None:
    body: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n3", "annotations": {RESTORED: TIME}}}
    assert (await wire.node("n3").post("/api/v1/nodes", body)).status == 403
    await restored(wire)
    del body["metadata"]["annotations"]
    answer = await wire.node("n3").post("/api/v1/nodes", body)
    assert (answer.status, answer.body["metadata"]["annotations"][RESTORED]) == (201, TIME)


async def test_a_node_writes_its_own_annotations(wire: Wire) -> None:
    for name in ("version", "trusts", "leaving", "delete-disks"):
        if name == "leaving":
            continue  # the controllers would remove the finalizer
        answer = await wire.node("n1").patch(NODE, {"metadata": {"annotations": {f"tarmac.dev/{name}": "x"}}})
        assert answer.status == 200, answer
    assert (await wire.node("n1").patch(NODE, {"metadata": {"annotations": {"tarmac.dev/leaving": "x"}}})).status == 200


async def test_a_node_that_has_answered_adds_nothing_later(wire: Wire) -> None:
    await restored(wire)
    assert (await report(wire, pod("real"))).status == 200
    assert (await report(wire, pod("real"), pod("web", "2"))).status == 200
    assert await held(wire) == [("real", "n1")]
    await create(wire)
    assert (await report(wire, pod("real", "3"))).status == 200
    assert await held(wire) == [], "the pod that it reported is gone, and no other takes its place"


async def test_deleting_a_node_frees_the_names_that_it_holds(wire: Wire) -> None:
    await restored(wire)
    await report(wire, pod())
    with pytest.raises(Conflict, match="RestoredConflict"):
        await create(wire)
    await decide(wire, "remove")
    with pytest.raises(Conflict, match="it is being ended"):
        await create(wire)
    await wire.admin.resource(NODES).delete("n1")
    assert await held(wire) == []
    await create(wire)


async def test_conflicts_are_counted_for_alerts(wire: Wire) -> None:
    async def counted() -> bytes:
        lines = (await wire.admin.call("GET", "/metrics")).body.splitlines()
        return next(line for line in lines if line.startswith(b"tarmac_restored_conflicts"))

    assert await counted() == b"tarmac_restored_conflicts 0"
    await restored(wire)
    await report(wire, pod(), pod("other", "2"))
    assert await counted() == b"tarmac_restored_conflicts 2"
    await wire.admin.resource(NODES).delete("n1")
    assert await counted() == b"tarmac_restored_conflicts 0"


async def test_a_node_that_registers_again_answers_again(wire: Wire) -> None:
    await restored(wire)
    await report(wire)
    await wire.admin.resource(NODES).delete("n1")
    await wire.admin.resource(NODES).create({"metadata": {"name": "n1"}})
    await report(wire, pod())
    assert await held(wire) == [("web", "n1")]


REFUSED: list[tuple[Json, type[ApiError], str]] = [
    ({"container": {"securityContext": {"privileged": True}}}, Forbidden, "privileged"),
    ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, Forbidden, "hostPath"),
    ({"hostNetwork": True}, Forbidden, "host namespaces"),
    ({"serviceAccountName": "nobody"}, Forbidden, 'serviceaccount "nobody" not found'),
    ({"containers": []}, Invalid, "spec.containers"),
    ({"container": {"image": 5}}, Invalid, "image"),
    ({"priority": 2000001000}, Forbidden, "integer value of priority"),
]


@pytest.mark.parametrize(("spec", "error", "why"), REFUSED, ids=[each[2] for each in REFUSED])
async def test_an_invented_pod_is_not_adopted_past_admission(
    wire: Wire, spec: Json, error: type[ApiError], why: str
) -> None:
    await restored(wire)
    await report(wire, pod(**spec))
    with pytest.raises(error, match=why):
        await decide(wire, "adopt")
    assert (await wire.admin.resource(PODS).list("shop")).items == []
    assert await held(wire) == [("web", "n1")], "still undecided"


async def test_an_invented_pod_takes_no_address_of_others(wire: Wire) -> None:
    await restored(wire)
    await wire.admin.resource(NAMESPACES).create({"metadata": {"name": "bank"}})
    (ours, vni), (theirs, other) = (
        await network(wire, "shop", "10.1.0.0/16"),
        await network(wire, "bank", "10.2.0.0/16"),
    )
    holder = pod("holder", "9", {ANNOTATION_INTERFACES: interface(ours, vni, "10.1.0.9/24")})
    await report(wire, holder)
    await decide(wire, "adopt", "holder")
    for number, (name, told, address, why) in enumerate(
        [
            (theirs, other, "10.2.0.5/24", "is not of the pod's namespace"),
            (ours, other, "10.1.0.5/24", f"does not have the number {other}"),
            (ours, vni, "10.2.0.5/24", "is not an address of Network"),
            (ours, vni, "nonsense", "is not an address of Network"),
            (ours, vni, "10.1.0.9/16", "pod shop/holder has the address"),
        ]
    ):
        forged = {**pod("web", str(number), {ANNOTATION_INTERFACES: interface(name, told, address)})}
        forged["spec"]["nodeName"] = "n2"
        await wire.store.create(
            "tarmac/running",
            "shop/web/n2",
            msgspec.json.encode({"metadata": {"name": "shop/web/n2"}, "pod": forged, "why": "x", "removed": False}),
        )
        with pytest.raises(Invalid, match=why):
            await decide(wire, "adopt")
        entry = wire.store.head("tarmac/running", "shop/web/n2")
        assert entry is not None
        await wire.store.delete("tarmac/running", entry.name, entry.revision)


SOURCE = {"url": "https://images.example/debian.raw"}
CHECKSUM = f"sha256:{'0' * 64}"
IMAGE = {"size": "10Gi", "format": "raw", "source": SOURCE, "checksum": CHECKSUM}


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"debian": {**IMAGE, "source": {"url": "file:///etc/shadow"}}}, "MachineImage debian has not this source"),
        ({"debian": {**IMAGE, "checksum": f"sha256:{'1' * 64}"}}, "MachineImage debian has not this source"),
        ({"invented": IMAGE}, "MachineImage invented has not this source"),
        ({"bank:debian": IMAGE}, "LocalMachineImage debian has not this source"),
        ({"debian": 5}, "cannot be read"),
        ({"debian": IMAGE}, ""),
    ],
)
async def test_an_adopted_machine_has_an_image_of_the_catalogue(wire: Wire, named: Json, why: str) -> None:
    images = dynamic("compute.datumapis.com/v1alpha", "machineimages", "MachineImage", namespaced=False)
    body: Json = {"apiVersion": images.api_version, "kind": images.kind, "metadata": {"name": "debian"}}
    await wire.admin.resource(images).create({**body, "spec": IMAGE})
    await restored(wire)
    await report(wire, pod(annotations={ANNOTATION_MACHINE_IMAGES: json.dumps(named)}))
    if not why:
        await decide(wire, "adopt")
        kept = (await wire.admin.resource(PODS).get("web", "shop"))["metadata"]["annotations"]
        assert json.loads(kept[ANNOTATION_MACHINE_IMAGES]) == named
        return
    with pytest.raises(Invalid, match=why):
        await decide(wire, "adopt")


def interface(network: str, vni: int, address: str) -> str:
    return encode_interfaces([AttachedInterface("eth0", network, vni, addresses=[address])])


async def network(wire: Wire, namespace: str, block: str) -> tuple[str, int]:
    """Return the key and the number of a Network, once it has one."""
    networks = wire.admin.resource(NETWORKS)
    body = {"apiVersion": NETWORKS.api_version, "kind": "Network", "metadata": {"name": "net", "namespace": namespace}}
    await networks.create({**body, "spec": {"ipam": {"mode": "Policy", "ipv4Range": block}}})
    async with asyncio.timeout(10):
        while not (status := (await networks.get("net", namespace)).get("status") or {}).get("vni"):
            await asyncio.sleep(0.02)
    return f"{namespace}/net", status["vni"]


async def test_a_pod_takes_the_place_of_a_stored_one_with_other_interfaces(wire: Wire) -> None:
    await restored(wire)
    name, vni = await network(wire, "shop", "10.1.0.0/16")
    for node, uid, address in (("n1", "1", "10.1.0.4/24"), ("n2", "2", "10.1.0.5/24")):
        running = pod("web", uid, {ANNOTATION_INTERFACES: interface(name, vni, address)})
        assert (await report(wire, running, node=node)).status == 200
        await decide(wire, "adopt", "web", node)
        stored = await wire.admin.resource(PODS).get("web", "shop")
        assert stored["metadata"]["uid"] == running["metadata"]["uid"]
        assert address in stored["metadata"]["annotations"][ANNOTATION_INTERFACES]
        assert stored["spec"]["nodeName"] == node


async def test_a_sound_pod_is_adopted_as_it_runs(wire: Wire) -> None:
    await restored(wire)
    await report(wire, pod())
    await decide(wire, "adopt")
    stored = await wire.admin.resource(PODS).get("web", "shop")
    assert (stored["metadata"]["uid"], stored["spec"]["nodeName"]) == (pod()["metadata"]["uid"], "n1")
    assert await held(wire) == []


def empty(count: int, unit: bytes) -> bytes:
    return b"[" + unit * count + b"1]"


HUGE: dict[str, tuple[bytes, int]] = {
    "a pod of empty lists": (b'"pods":[{"metadata":{"name":"a"},"x":' + empty(900_000, b"[],") + b"}]", 413),
    "many pods": (b'"pods":' + empty(900_000, b"{},"), 413),
    "many waiting names": (b'"waiting":[' + b'"a/b",' * 500_000 + b'"a/b"]', 413),
    "waiting names below the limit of values": (b'"waiting":[' + b'"a/b",' * 3_000 + b'"a/b"]', 400),
    "more pods than a node runs": (b'"pods":' + empty(3_000, b"{},"), 400),
    "one pod of too many values": (b'"pods":[{"metadata":{"name":"a"},"x":' + empty(30_000, b"[],") + b"}]", 413),
    "things that are no pods": (b'"pods":[1,null,[],{},{"metadata":[]},{"metadata":{"name":5}}]', 200),
}


@pytest.mark.parametrize("name", HUGE)
async def test_a_huge_report_holds_nobody_up(wire: Wire, name: str) -> None:
    await restored(wire)
    body, status = HUGE[name]
    whole = b'{"restored":"' + TIME.encode() + b'",' + body + b"}"

    async def once() -> float:
        async with longest_turn() as turn:
            assert (await wire.node("n1").post(running_path("n1"), whole)).status == status
        return turn[0]

    assert await at_best(once) < ALLOWED


async def test_two_thousand_pods_of_one_report_hold_nobody_up(wire: Wire) -> None:
    await restored(wire)
    environment = [{"name": f"A{number}", "value": "x" * 20} for number in range(12)]
    pods = [pod(f"web-{number}", container={"env": environment}) for number in range(2000)]
    waiting = [f"shop/web-{number}" for number in range(0, 4000, 2)]
    whole = json.dumps({"restored": TIME, "pods": pods, "waiting": waiting}).encode()
    assert len(whole) > 1_500_000

    async def once() -> float:
        async with longest_turn() as turn:
            answer = await wire.node("n1").post(running_path("n1"), whole)
        assert (answer.status, len(answer.body["held"])) == (200, 1000)
        return turn[0]

    assert await at_best(once) < ALLOWED
    assert len(await held(wire)) == 2000
