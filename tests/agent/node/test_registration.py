"""A node registers itself, renews its Lease, and keeps fields of other writers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tarmac import __version__
from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.node.lease import Heartbeat
from tarmac.agent.node.nodestatus import NodeStatusFacts
from tarmac.agent.node.reporter import NodeReporter
from tarmac.client.client import Client
from tarmac.client.eventrecorder import Recorder
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import LEASES, NODES
from tests.agent.node.settings import agent_config
from tests.agent.node.test_node_status import FACTS
from tests.client import backends


@pytest.fixture(params=["ours", pytest.param("real", marks=pytest.mark.peers)])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Client]:
    """Return a client of our server, then of a real kube-apiserver."""
    async with AsyncExitStack() as stack:
        if request.param == "ours":
            yield await stack.enter_async_context(backends.over_tls(tmp_path / "server"))
        else:
            yield await stack.enter_async_context(backends.real(request.getfixturevalue("peer")))


class Node:
    """A reporter with settable facts."""

    def __init__(self, client: Client, config: AgentConfig) -> None:
        self.facts: NodeStatusFacts = FACTS
        self.informers = Informers(client)
        self.reporter = NodeReporter(client, self.informers, config, self._observe, Recorder(client, "kubelet"))

    async def _observe(self) -> NodeStatusFacts:
        return self.facts


@pytest.fixture
async def config(client: Client, tmp_path: Path) -> AgentConfig:
    """Return the configuration of a node with a unique name."""
    name = f"node-{client.randomness.suffix(8)}"
    taint = {"key": "example.com/new", "effect": "NoSchedule"}
    return agent_config(tmp_path, {"registerWithTaints": [taint]}, node_name=name, location="dfw-1")


async def registered(client: Client, config: AgentConfig) -> Node:
    node = Node(client, config)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(node.reporter.run())
        await node.reporter.registered.wait()
        work.cancel()
    return node


async def test_a_node_that_was_upgraded_says_so(client: Client, config: AgentConfig) -> None:
    old = {"tarmac.dev/version": "0.0.1", "example.com/mine": "stays"}
    await client.resource(NODES).create({"metadata": {"name": config.node_name, "annotations": old}})
    await registered(client, config)
    notes = (await client.resource(NODES).get(config.node_name))["metadata"]["annotations"]
    assert (notes["tarmac.dev/version"], notes["example.com/mine"]) == (__version__, "stays")


async def test_a_new_node(client: Client, config: AgentConfig) -> None:
    await registered(client, config)
    found = await client.resource(NODES).get(config.node_name)
    labels: dict[str, str] = found["metadata"]["labels"]
    assert found["metadata"]["annotations"]["tarmac.dev/version"] == __version__
    assert labels["kubernetes.io/os"] == "linux"
    assert labels["kubernetes.io/arch"] == "amd64"
    assert labels["topology.datum.net/location"] == "dfw-1"
    assert {"key": "example.com/new", "effect": "NoSchedule"} in found["spec"]["taints"]
    assert found["status"]["allocatable"]["cpu"] == "19500m"
    assert [each["status"] for each in found["status"]["conditions"] if each["type"] == "Ready"] == ["True"]


async def test_an_existing_node_keeps_what_others_wrote(client: Client, config: AgentConfig) -> None:
    await registered(client, config)
    nodes = client.resource(NODES)
    await nodes.patch(
        config.node_name,
        {"metadata": {"labels": {"team": "red", "kubernetes.io/os": "wrong"}}, "spec": {"unschedulable": True}},
    )
    others = {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated"}
    body = {"status": {"conditions": [others], "capacity": {"example.com/gpu": "2"}}}
    await nodes.patch(config.node_name, body, type="strategic", subresource="status")
    await registered(client, config)
    found = await nodes.get(config.node_name)
    assert found["metadata"]["labels"]["team"] == "red"
    assert found["metadata"]["labels"]["kubernetes.io/os"] == "linux"
    assert found["spec"]["unschedulable"] is True
    assert found["status"]["capacity"]["example.com/gpu"] == "2"
    assert "NetworkUnavailable" in {each["type"] for each in found["status"]["conditions"]}


async def test_status_is_written_only_when_it_says_something_new(client: Client, config: AgentConfig) -> None:
    node = await registered(client, config)
    nodes = client.resource(NODES)
    before = await nodes.get(config.node_name)
    await node.reporter.report()
    assert (await nodes.get(config.node_name))["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    node.facts = replace(FACTS, unready="container runtime is down")
    await node.reporter.report()
    after = await nodes.get(config.node_name)
    assert after["status"]["conditions"][-1]["message"] == "container runtime is down"


async def test_two_addresses_of_one_type_survive_a_change(client: Client, config: AgentConfig) -> None:
    node = await registered(client, config)
    both: list[Any] = [{"type": "InternalIP", "address": each} for each in ("10.0.0.8", "fd00::8")]
    node.facts = replace(FACTS, addresses=[*both, {"type": "Hostname", "address": "h"}])
    await node.reporter.report()
    found = await client.resource(NODES).get(config.node_name)
    assert found["status"]["addresses"] == [*both, {"type": "Hostname", "address": "h"}]


async def test_the_lease_belongs_to_the_node_and_is_renewed(client: Client, config: AgentConfig) -> None:
    node = await registered(client, config)
    heartbeat = Heartbeat(client, config.node_name, 40, node.reporter.node)
    await heartbeat.renew()
    leases = client.resource(LEASES)
    first = await leases.get(config.node_name, "kube-node-lease")
    assert first["spec"]["holderIdentity"] == config.node_name
    assert first["spec"]["leaseDurationSeconds"] == 40
    assert first["metadata"]["ownerReferences"][0]["kind"] == "Node"
    await heartbeat.renew()
    second = await leases.get(config.node_name, "kube-node-lease")
    assert second["spec"]["renewTime"] > first["spec"]["renewTime"]


async def test_a_lease_that_somebody_else_touched_is_read_again(client: Client, config: AgentConfig) -> None:
    node = await registered(client, config)
    heartbeat = Heartbeat(client, config.node_name, 40, node.reporter.node)
    await heartbeat.renew()
    leases = client.resource(LEASES)
    touched = {"metadata": {"labels": {"touched": "yes"}}}
    await leases.patch(config.node_name, touched, "kube-node-lease")
    assert await heartbeat.attempt() is False
    assert await heartbeat.attempt() is True
    found = await leases.get(config.node_name, "kube-node-lease")
    assert found["metadata"]["labels"] == {"touched": "yes"}


async def test_without_a_node_there_is_no_lease(client: Client) -> None:
    await Heartbeat(client, "nobody", 40, lambda: None).renew()
    names = {each["metadata"]["name"] for each in (await client.resource(LEASES).list("kube-node-lease")).items}
    assert "nobody" not in names
