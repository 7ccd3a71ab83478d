"""Pods of a real containerd, attached by the relay: the host's kernel and a pod's own kernel give the same networks."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.agent.network.attaching import InterfaceAttacher
from tarmac.agent.network.cni.cnifiles import write_files
from tarmac.agent.network.cni.server import CniServer
from tarmac.api.networking.interfaces import AttachedInterface, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.datapath.interface import NetworkState, NodeNetworks
from tarmac.decide.reach.policyrules import Rules, ServiceFrontend
from tarmac.runtimes import containerd
from tarmac.runtimes.containerd import ContainerdSettings
from tarmac.runtimes.cri.criruntime import CriRuntime
from tarmac.runtimes.interface import ContainerConfig, PodIdentity, RuntimeRefused, SandboxConfig
from tarmac.runtimes.parts import PartMissing, find_parts
from tests.datapath.conftest import real as real
from tests.datapath.worlds import RealWorld, nic
from tests.support.containerd import BUSYBOX, remove_cgroups

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]

FRONT = NetworkState("shop/default", 4097, 1460, ("10.128.0.0/9", "fd20:1::/48"))
BACK = NetworkState("shop/back", 4098, 1400, ("172.20.0.0/16", "fd21::/48"))
SERVE = "while true; do echo -n $NAME | nc -l -p 80; done"


class Machine:
    """A machine with a containerd, and an agent that only serves CNI requests."""

    def __init__(self, world: RealWorld, folder: Path) -> None:
        self.world = world
        self.datapath = world.node(1)
        self.pods: dict[str, JsonObject] = {}
        self.cgroup = f"/tarmac-test-network-{os.getpid()}"
        self._folder = folder
        self.settings = ContainerdSettings(
            root=folder / "root",
            run=world.lab.folder / "c",
            cni_bin=folder / "bin",
            cni_conf=folder / "conf",
            certs=folder / "certs",
            parts=find_parts(path=""),
            network_namespace=world.lab.machine(1),
        )
        self._socket = world.lab.folder / "cni.sock"
        self._server = asyncio.create_task(
            CniServer(self._socket, InterfaceAttacher(self.datapath, self._find, _covered)).run()
        )
        write_files(self.settings.cni_bin, self.settings.cni_conf, self._socket)
        self.runtime = CriRuntime(self.settings.endpoint)

    async def start(self) -> None:
        await containerd.start(self.settings)

    async def stop(self) -> None:
        await containerd.stop(self.settings, remove=True)
        await self.runtime.close()
        self._server.cancel()
        await asyncio.gather(self._server, return_exceptions=True)
        self._socket.unlink(missing_ok=True)
        shutil.rmtree(self.settings.run, ignore_errors=True)
        remove_cgroups(self.cgroup)

    async def pod(self, name: str, handler: str, interfaces: Sequence[AttachedInterface], command: str = SERVE) -> str:
        """Run a pod with one container; return the container's id."""
        uid = str(uuid.uuid4())
        annotations = {ANNOTATION_INTERFACES: encode_interfaces(interfaces)}
        self.pods[uid] = {"metadata": {"namespace": "shop", "name": name, "uid": uid, "annotations": annotations}}
        logs = self._folder / "logs" / uid
        logs.mkdir(parents=True)
        config = SandboxConfig(PodIdentity("shop", name, uid), name, str(logs), f"{self.cgroup}/pod{uid}")
        self.sandbox = await self.runtime.run_sandbox(config, handler)
        container = ContainerConfig("main", 0, BUSYBOX, BUSYBOX, ("sh", "-c", command), envs=(("NAME", name),))
        made = await self.runtime.create_container(self.sandbox, replace(container, log_path="main.log"), config)
        await self.runtime.start_container(made)
        return made

    async def says(self, container: str, command: str) -> str:
        """Return the output of a command in a container."""
        done = await self.runtime.exec(container, ("sh", "-c", command), 20)
        return done.stdout.decode()

    async def answer(self, container: str, place: str) -> str:
        """Return a server's response, with retries: `nc` stops listening for a moment after each one."""
        for _ in range(20):
            said = await self.says(container, f"nc -w 5 {place} < /dev/null")
            if said:
                return said
        return ""

    def _find(self, namespace: str, name: str, uid: str) -> JsonObject | None:
        return self.pods.get(uid)


async def _covered(pod: str, interfaces: Sequence[AttachedInterface]) -> None:
    """All pods' rules apply at once here."""


@pytest.fixture
async def machine(real: RealWorld, tmp_path: Path) -> AsyncIterator[Machine]:
    try:
        made = Machine(real, tmp_path)
    except PartMissing as missing:
        pytest.fail(f"{missing} (python -m tools.node_parts)")
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


@pytest.mark.parametrize("handler", ["runc", "gvisor"])
async def test_pods_on_two_networks_with_both_families(machine: Machine, handler: str) -> None:
    service = ServiceFrontend("10.96.0.9", "TCP", 8080, (("10.128.0.6", 80),))
    front = replace(FRONT, services=(service,))
    await machine.datapath.apply(NodeNetworks(("198.18.0.1",), (front, BACK)))
    second = nic("shop/back", "172.20.0.5/24", name="back", vni=4098, mtu=1400, leads=("172.20.0.0/16",))
    one = await machine.pod("one", handler, [nic("shop/default", "10.128.0.5/20", "fd20:1::5/64"), second])
    first_sandbox = machine.sandbox
    two = await machine.pod("two", handler, [nic("shop/default", "10.128.0.6/20", "fd20:1::6/64", name="front")])
    await machine.pod("three", "runc", [nic("shop/back", "172.20.0.6/24", vni=4098, mtu=1400)])

    assert (await machine.runtime.sandbox(first_sandbox)).addresses == ("10.128.0.5", "fd20:1::5")
    shown = await machine.says(one, "ip addr; ip route")
    for expected in ("10.128.0.5", "fd20:1::5", "172.20.0.5", "back"):
        assert expected in shown
    for container, place, answer in (
        (one, "10.128.0.6 80", "two"),
        (one, "fd20:1::6 80", "two"),
        (one, "172.20.0.6 80", "three"),
        (one, "10.96.0.9 8080", "two"),
        (two, "10.128.0.5 80", "one"),
        (two, "fd20:1::5 80", "one"),
        (two, "10.96.0.9 8080", "two"),
    ):
        assert await machine.answer(container, place) == answer, place

    closed = replace(front, rules={"10.128.0.6": Rules(ingress=()), "10.128.0.5": Rules(egress=())})
    await machine.datapath.apply(NodeNetworks(("198.18.0.1",), (closed, BACK)))
    assert await machine.says(one, "nc -w 1 10.128.0.6 80 < /dev/null") == ""
    assert await machine.answer(two, "10.128.0.5 80") == "one"
    with await _dialled(machine, "10.128.0.6") as probe:
        assert await asyncio.get_running_loop().sock_recv(probe, 10) == b"two", "probes pass"

    await machine.runtime.stop_sandbox(first_sandbox)
    assert first_sandbox not in machine.datapath.sandboxes()


async def _dialled(machine: Machine, address: str) -> socket.socket:
    async with asyncio.timeout(20):
        while True:
            with suppress(ConnectionRefusedError):
                return await machine.datapath.connect("shop/default", address, 80, 5.0)


async def test_a_pod_that_cannot_be_attached_does_not_start_and_leaves_nothing(machine: Machine) -> None:
    await machine.datapath.apply(NodeNetworks(("198.18.0.1",), (FRONT,)))
    wrong = AttachedInterface("a-name-that-is-too-long", "shop/default", addresses=["10.128.0.5/20"])
    with pytest.raises(RuntimeRefused, match="failed to setup network"):
        await machine.pod("none", "runc", [wrong])
    assert machine.datapath.sandboxes() == set()


@pytest.mark.parametrize("handler", ["runc", "gvisor"])
async def test_a_pod_without_interfaces_has_its_loopback(machine: Machine, handler: str) -> None:
    alone = await machine.pod("alone", handler, [], "sleep 1000")
    shown = await machine.says(alone, "ip addr")
    assert "127.0.0.1" in shown
    assert "eth0" not in shown
