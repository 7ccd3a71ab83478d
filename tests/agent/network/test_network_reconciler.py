"""The networks of a node follow the API: the whole server in this process, and a node's own rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.network import reconciler as keeping
from tarmac.agent.network.attaching import RulesNotApplied
from tarmac.agent.network.compiler import CompiledNetworks
from tarmac.agent.network.reconciler import NetworkReconciler
from tarmac.api.identities import controller_user
from tarmac.api.networking.interfaces import AttachedInterface, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES, ANNOTATION_NETWORK
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.apps.control_plane import local_transport
from tarmac.client.client import Client
from tarmac.client.eventrecorder import Recorder
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import (
    ENDPOINT_SLICES,
    KUBERNETES_POLICIES,
    NETWORK_POLICIES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from tarmac.datapath.fake import FakeDatapath
from tarmac.datapath.interface import NetworkState, NodeNetworks, Remote
from tarmac.decide.reach.policyrules import Rules
from tarmac.server.security.users import User
from tests.client.backends import our_server

CONTROLLERS = User(controller_user("instance"), groups=("system:masters", "system:authenticated"))
NODE = User("system:node:here", groups=("system:nodes", "system:authenticated"))
NIC = AttachedInterface(name="eth0", network="default/default", vni=4097, mtu=1400, addresses=["10.128.0.5/20"])


class World:
    """A server, an admin, and the reconciler of the node `here`."""

    def __init__(self, admin: Client, node: Client) -> None:
        self.admin = admin
        self.datapath = FakeDatapath()
        self.informers = Informers(node)
        self.keeper = NetworkReconciler(
            self.informers, self.datapath, "here", lambda: ("198.18.0.1",), Recorder(node, "kubelet", "here")
        )

    async def create(self, target: Any, name: str, annotations: dict[str, str] | None = None, **fields: Any) -> None:
        metadata = {"name": name, "annotations": annotations or {}}
        metadata |= {"namespace": "default"} if target.namespaced else {}
        kind = {"apiVersion": target.api_version, "kind": target.kind}
        await self.admin.resource(target).create({**kind, "metadata": metadata, **fields})

    async def pod(self, name: str = "web", interface: AttachedInterface = NIC, node: str = "here") -> None:
        spec: JsonObject = {
            "nodeName": node,
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
            "automountServiceAccountToken": False,
        }
        await self.create(PODS, name, {ANNOTATION_INTERFACES: encode_interfaces([interface])}, spec=spec)

    async def uid(self, pod: str) -> str:
        return (await self.admin.resource(PODS).get(pod, "default"))["metadata"]["uid"]

    def network(self) -> NetworkState | None:
        return next((each for each in self.datapath.state.networks if each.name == "default/default"), None)

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.005)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with our_server(tmp_path) as running:
        node = Client(local_transport(running.server, NODE))
        made = World(Client(local_transport(running.server, CONTROLLERS)), node)
        await made.create(NODES, "here")
        await _account(made.admin)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(made.informers.run()), group.create_task(made.keeper.run())]
            yield made
            for task in tasks:
                task.cancel()


async def _account(admin: Client) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                await admin.resource(SERVICE_ACCOUNTS).get("default", "default")
                return
            except NotFound:
                await asyncio.sleep(0.02)


def counted_compilations(world: World, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count compilations from now on."""
    compiled: list[int] = []
    compile_networks = world.keeper._compiler.compile

    def counted(*arguments: Any) -> CompiledNetworks:
        compiled.append(1)
        return compile_networks(*arguments)

    monkeypatch.setattr(world.keeper._compiler, "compile", counted)
    return compiled


async def test_a_node_may_see_what_it_needs_and_makes_the_network_of_its_pod(world: World) -> None:
    await world.pod()
    await world.until(world.network)
    found = world.network()
    assert found is not None
    assert (found.mtu, found.rules) == (1400, {"10.128.0.5": Rules()})
    assert world.datapath.state.node_addresses == ("198.18.0.1",)
    assert any(port.address == "10.96.0.1" for port in found.services), "the API server is reachable from pods"


async def test_policies_are_followed(world: World) -> None:
    await world.pod()
    await world.until(world.network)
    await world.create(NETWORK_POLICIES, "closed", spec={"selector": {}, "ingress": []})
    await world.until(lambda: (state := world.network()) and state.rules["10.128.0.5"] == Rules(ingress=()))
    await world.admin.resource(NETWORK_POLICIES).delete("closed", "default")
    await world.until(lambda: (state := world.network()) and state.rules["10.128.0.5"] == Rules())


async def test_policies_of_kubernetes_are_followed(world: World) -> None:
    await world.pod()
    await world.until(world.network)
    await world.create(KUBERNETES_POLICIES, "closed", spec={"podSelector": {}})
    await world.until(lambda: (state := world.network()) and state.rules["10.128.0.5"] == Rules(ingress=()))
    await world.admin.resource(KUBERNETES_POLICIES).delete("closed", "default")
    await world.until(lambda: (state := world.network()) and state.rules["10.128.0.5"] == Rules())


async def test_a_pod_waits_until_its_rules_are_in_force(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    apply = world.datapath.apply

    async def held_up(state: NodeNetworks, **options: Any) -> Mapping[str, Exception]:
        if state.networks:
            begun.set()
            await go_on.wait()
        return await apply(state, **options)

    monkeypatch.setattr(world.datapath, "apply", held_up)
    await world.pod()
    waiting = asyncio.create_task(world.keeper.wait_until_applied(await world.uid("web"), [NIC]))
    await begun.wait()
    assert not waiting.done()
    go_on.set()
    await waiting
    assert world.network() is not None


async def test_a_pod_that_the_rules_do_not_name_is_not_covered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.pod()
    await world.until(world.network)
    uid = await world.uid("web")
    monkeypatch.setattr(keeping, "TIMEOUT", 0.05)
    for pod, address in ((uid, "10.128.0.99/20"), ("who-had-the-address-before", "10.128.0.5/20")):
        with pytest.raises(RulesNotApplied, match="not in force yet"):
            await world.keeper.wait_until_applied(
                pod, [AttachedInterface("eth0", "default/default", addresses=[address])]
            )
    await world.keeper.wait_until_applied("without-interfaces", [])


async def test_host_addresses_of_a_pod_start_no_pass(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.pod()
    await world.until(world.network)
    await asyncio.sleep(0.2)
    compiled = counted_compilations(world, monkeypatch)
    members = world.keeper._informers.own.by_key
    pods = world.admin.resource(PODS)
    await pods.patch("web", {"status": {"hostIP": "198.18.0.1"}}, "default", subresource="status")
    await world.until(lambda: members["default/web"].hosts == ("198.18.0.1",))
    assert not world.keeper._wake.is_set()
    assert not compiled
    await pods.patch("web", {"metadata": {"labels": {"tier": "front"}}}, "default")
    await world.until(lambda: compiled)


async def test_pods_of_other_nodes_and_networks_make_no_work(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.pod()
    await world.until(world.network)
    await asyncio.sleep(0.2)
    compiled = counted_compilations(world, monkeypatch)
    await world.pod("stranger", AttachedInterface("eth0", "bank/default", addresses=["10.128.0.9/20"]), node="there")
    await world.pod("peer", AttachedInterface("eth0", "default/default", addresses=["10.128.0.6/20"]), node="there")
    await world.until(lambda: compiled)
    assert len(world.keeper._informers.snapshot().members) == 3
    assert len(compiled) == 1


async def test_pods_elsewhere_are_reached_behind_their_nodes(world: World) -> None:
    await world.pod()
    peer = AttachedInterface("eth0", "default/default", addresses=["10.128.0.6/20"])
    await world.pod("peer", peer, node="there")
    pods = world.admin.resource(PODS)
    await pods.patch("peer", {"status": {"hostIP": "198.18.0.2"}}, "default", subresource="status")
    remote = Remote("198.18.0.2", ("10.128.0.6/32",))
    await world.until(lambda: (found := world.network()) and found.remotes == (remote,))
    await pods.patch("peer", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    await world.until(lambda: (found := world.network()) and found.remotes == ())


async def test_a_failure_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = 3
    apply = world.datapath.apply

    async def failing(state: NodeNetworks, **options: Any) -> Mapping[str, Exception]:
        nonlocal failures
        if state.networks and failures:
            failures -= 1
            raise OSError("no buffers")
        return await apply(state, **options)

    monkeypatch.setattr(world.datapath, "apply", failing)
    await world.pod()
    await world.until(world.network)
    assert failures == 0


async def test_observers_get_the_networks_after_they_are_applied(world: World) -> None:
    heard: list[set[str]] = []

    async def observer(networks: Any) -> None:
        heard.append(set(networks))

    world.keeper.on_networks(observer)
    await world.pod()
    await world.until(lambda: heard)
    assert heard == [{"default/default"}]


async def test_a_network_lingers_after_its_last_pod(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.pod()
    await world.until(world.network)
    await world.admin.resource(PODS).delete("web", "default", grace=0)
    await world.until(lambda: (state := world.network()) and not state.rules)
    monkeypatch.setattr(keeping, "LINGER", 0.0)
    await world.create(NETWORK_POLICIES, "wake", spec={"selector": {}})
    await world.until(lambda: world.network() is None)


async def test_the_same_city_comes_first_and_a_node_may_be_moved(world: World) -> None:
    await world.create(SERVICES, "web", spec={"clusterIP": "10.96.0.9", "ports": [{"port": 80}]})
    for name, address in (("dfw", "10.128.0.7"), ("lhr", "10.128.0.8")):
        slice_ = {
            "metadata": {
                "name": f"web-{name}",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "web"},
                "annotations": {ANNOTATION_NETWORK: "default/default"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "hints": {"forZones": [{"name": name}]}}],
            "ports": [{"name": "", "port": 80}],
        }
        kind = {"apiVersion": ENDPOINT_SLICES.api_version, "kind": ENDPOINT_SLICES.kind}
        await world.admin.resource(ENDPOINT_SLICES).create({**kind, **slice_})
    await world.pod()

    def backends() -> list[str]:
        state = world.network()
        ports = [port for port in state.services if port.address == "10.96.0.9"] if state else []
        return [address for port in ports for address, _ in port.backends]

    await world.until(lambda: backends() == ["10.128.0.7", "10.128.0.8"])
    for zone, address in (("lhr", "10.128.0.8"), ("dfw", "10.128.0.7")):
        labels = {"topology.kubernetes.io/zone": zone}
        await world.admin.resource(NODES).patch("here", {"metadata": {"labels": labels}})
        await world.until(lambda address=address: backends() == [address])
