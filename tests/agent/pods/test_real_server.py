"""A node of a real Kubernetes: kube-apiserver accepts the pod loop's statuses and deletions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.model.podsettings import PodSettings
from tarmac.agent.pods.manager import PodManager
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists
from tarmac.client.client import Client
from tarmac.client.eventrecorder import Recorder
from tarmac.client.http import HttpTransport
from tarmac.client.informer import Informers
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import NODES, PODS, SERVICE_ACCOUNTS
from tarmac.runtimes.fake import FakeProgram, FakeRuntime
from tarmac.volumes.fake import FakeSources
from tests.agent.pods.machine import (
    IMAGE,
    Cgroups,
    PlainVolumes,
    condition,
    container,
    container_status,
    no_network,
    pod,
)
from tests.client import backends
from tests.support.peer import Peer

pytestmark = pytest.mark.peers

# Several suites share the server, so these names are unique.
NODE = "pod-loop-node"
WEB, ONCE, HUGE = "pod-loop-web", "pod-loop-once", "pod-loop-huge"
NOTES = {"node.tarmac/cpus": '{"main":"2-3"}'}


class Place:
    """An administrator's client, and the node's runtime."""

    def __init__(self, user: Client, runtime: FakeRuntime) -> None:
        self.user = user
        self.runtime = runtime
        self.pods = user.resource(PODS)

    async def status(self, name: str) -> JsonObject:
        return (await self.pods.get(name, "default")).get("status") or {}

    async def phase(self, name: str, wanted: str) -> JsonObject:
        async with asyncio.timeout(30):
            while (await self.status(name)).get("phase") != wanted:
                await asyncio.sleep(0.1)
        return await self.status(name)


@pytest.fixture
async def place(peer: Peer, tmp_path: Path) -> AsyncGenerator[Place]:
    """Run a node with a certificate of its own, so with a node's rights only."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(peer.node_kubeconfig(NODE))
    async with AsyncExitStack() as stack:
        user = await stack.enter_async_context(backends.real(peer))
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        with suppress(AlreadyExists):
            await user.resource(SERVICE_ACCOUNTS).create(account, namespace="default")
        with suppress(AlreadyExists):
            found = {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}
            made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": found}
            await user.resource(NODES).create(made)
        node = await user.resource(NODES).get(NODE)
        client = Client(HttpTransport(load(str(kubeconfig)).http))
        stack.push_async_callback(client.close)
        runtime = FakeRuntime()
        runtime.add_image(IMAGE)
        stack.push_async_callback(runtime.close)
        informers, recorder = Informers(client), Recorder(client, "kubelet", NODE)
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        addresses = [{"type": "InternalIP", "address": "192.0.2.1"}]
        manager = PodManager(
            client=client,
            informers=informers,
            runtime=runtime,
            volumes=PlainVolumes(tmp_path / "volumes"),
            sources=FakeSources(),
            cgroups=Cgroups(),
            allocator=Allocator(AllocationSettings(memory_capacity=8 << 30)),
            connect=no_network,
            node=lambda: {**node, "status": {"addresses": addresses, "allocatable": amounts, "capacity": amounts}},
            handlers=lambda: frozenset({"runc"}),
            recorder=recorder,
            settings=PodSettings(NODE, tmp_path, tmp_path / "logs", resolv_conf=None),
            notes=lambda _uid: NOTES,
        )
        tasks = [asyncio.create_task(part()) for part in (informers.run, recorder.run, manager.run)]
        try:
            yield Place(user, runtime)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_real_server_takes_what_the_node_says(place: Place) -> None:
    place.runtime.programs["first"] = FakeProgram(runs_for=0.2)
    place.runtime.programs["main"] = FakeProgram(code_on_term=3)
    resources = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
    await place.pods.create(
        pod(WEB, nodeName=NODE, initContainers=[container("first")], container={"resources": resources})
    )
    status = await place.phase(WEB, "Running")
    main = container_status(status)
    assert main["ready"]
    assert (await place.pods.get(WEB, "default"))["metadata"]["annotations"] == NOTES
    assert main["allocatedResources"] == {"cpu": "100m"}
    assert main["resources"] == resources
    assert status["podIPs"] == [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]
    for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"):
        assert condition(status, kind)["status"] == "True"
    for each in await place.runtime.containers():
        if each.state == "running":
            place.runtime.end_container(each.id, 1)
    async with asyncio.timeout(30):
        while container_status(await place.status(WEB))["restartCount"] != 1:
            await asyncio.sleep(0.1)
    await place.pods.delete(WEB, "default")
    async with asyncio.timeout(30):
        while (await place.pods.list("default", fields=f"metadata.name={WEB}")).items:
            await asyncio.sleep(0.1)


async def test_a_finished_and_a_refused_pod(place: Place) -> None:
    place.runtime.programs["main"] = FakeProgram(runs_for=0.1)
    await place.pods.create(pod(ONCE, nodeName=NODE, restartPolicy="Never"))
    status = await place.phase(ONCE, "Succeeded")
    assert container_status(status)["state"]["terminated"]["reason"] == "Completed"
    await place.pods.create(pod(HUGE, nodeName=NODE, container={"resources": {"requests": {"cpu": "50"}}}))
    assert (await place.phase(HUGE, "Failed"))["reason"] == "OutOfcpu"
    for name in (ONCE, HUGE):
        await place.pods.delete(name, "default", grace=0)
