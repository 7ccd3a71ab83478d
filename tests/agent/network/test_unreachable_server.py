"""An agent that starts while the server is away attaches only the pods that the node's checkpoint names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.network import reconciler as keeping
from tarmac.agent.network.attaching import InterfaceAttacher
from tarmac.agent.network.cni.server import CniServer
from tarmac.agent.network.reconciler import NetworkReconciler
from tarmac.api.networking.interfaces import AttachedInterface, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.client.client import Client
from tarmac.client.eventrecorder import Recorder
from tarmac.client.informer import Informers
from tarmac.datapath.fake import FakeDatapath
from tarmac.datapath.interface import Datapath, NetworkState
from tarmac.decide.reach.policyrules import Rules
from tests.datapath.conftest import world as world
from tests.datapath.test_datapath_contract import NET, PLAIN, A, B
from tests.datapath.worlds import RealWorld, World, nic, one_network

CLOSED = replace(PLAIN, rules={A: Rules(), B: Rules(ingress=())}, pods={A: "uid-a", B: "uid-b"})


class Silence:
    """A client of an unreachable server."""

    shared = staticmethod(lambda *_: b"")


async def question(datapath: Datapath, namespace: Path, uid: str, interfaces: Sequence[AttachedInterface]) -> Any:
    """Return the response to a runtime's CNI request, from an agent without a list from the server."""
    annotations = {ANNOTATION_INTERFACES: encode_interfaces(interfaces)}
    pod: JsonObject = {"metadata": {"namespace": "shop", "name": "pod", "uid": uid, "annotations": annotations}}
    client = Client(Silence())  # type: ignore[arg-type]
    keeper = NetworkReconciler(Informers(client), datapath, "here", tuple, Recorder(client, "kubelet", "here"))
    server = CniServer(Path("unused"), InterfaceAttacher(datapath, lambda *_: pod, keeper.wait_until_applied))
    names = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": uid, "CNI_NETNS": str(namespace)}
    said = await server.answer(names)
    return json.loads(said[1:])


async def restarted(world: World, state: NetworkState) -> Datapath:
    """Return the datapath of a new agent, on a node whose pods a and b have ended."""
    await world.node(1).apply(one_network(state))
    return await world.restart(1) if isinstance(world, RealWorld) else world.node(1)


def sandbox(world: World, name: str) -> Path:
    return world.lab.namespace(f"pod-{name}") if isinstance(world, RealWorld) else Path("/nowhere")


async def reaches(world: World, name: str, address: str) -> bool:
    if isinstance(world, RealWorld):
        await world.serve("a", 80)
        await world.serve("b", 80)
        return await world.reaches(name, address, hope=address == A) is not None
    node = world.node(1)
    assert isinstance(node, FakeDatapath)
    return node.reaches(f"uid-{name}", address, 80) is not None


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "TIMEOUT", 0.01)


@pytest.mark.parametrize(
    ("uid", "addresses"),
    [
        ("uid-of-a-stranger", ["10.128.0.12/20"]),
        ("uid-of-who-got-the-address-later", [f"{B}/20"]),
        ("uid-b", [f"{B}/20", "fd20:1::11/64"]),
    ],
    ids=["unknown", "another pod at a known address", "an address too many"],
)
async def test_a_pod_that_the_rules_do_not_name_is_refused(world: World, uid: str, addresses: list[str]) -> None:
    datapath = await restarted(world, CLOSED)
    said = await question(datapath, sandbox(world, "x"), uid, [nic(NET, *addresses)])
    assert (said["code"], "has not been heard" in said["msg"]) == (11, True)
    assert datapath.sandboxes() == set()


async def test_a_network_that_is_not_there_says_nothing_about_anybody(world: World) -> None:
    datapath = await restarted(world, CLOSED)
    said = await question(datapath, sandbox(world, "x"), "uid-a", [nic("bank/default", f"{A}/20")])
    assert said["code"] == 11


async def test_pods_that_the_rules_name_come_back_under_them(world: World) -> None:
    datapath = await restarted(world, CLOSED)
    for name, address in (("a", A), ("b", B)):
        said = await question(datapath, sandbox(world, name), f"uid-{name}", [nic(NET, f"{address}/20")])
        assert said["ips"][0]["address"] == f"{address}/20"
    assert datapath.sandboxes() == {"uid-a", "uid-b"}
    assert await reaches(world, "b", A)
    assert not await reaches(world, "a", B)
