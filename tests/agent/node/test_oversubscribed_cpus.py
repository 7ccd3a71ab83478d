"""A node of 104 processors lends reserved ones to pods, which its status, kubectl and the report show.

The agent's functions run for a fake machine with a node's rights on a real server, and on a stock kube-apiserver, where
the reservations are in an annotation. Stock kubectl and `tarmac node report` read the result.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.node.hostfacts import HostFacts, capacity, machine
from tarmac.agent.node.nodestatus import NodeStatusFacts, changes, node_status
from tarmac.agent.node.oversubscription import oversubscription_event
from tarmac.agent.node.reporter import NodeReporter, without_own_fields
from tarmac.agent.node.sizes import NodeSizes
from tarmac.agent.sizing.reservations import stated_reservations
from tarmac.base.clock import SystemClock
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.nodereport import node_report
from tarmac.client.client import Client
from tarmac.client.eventrecorder import Recorder
from tarmac.client.http import HttpTransport
from tarmac.client.informer import Informers
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import NODES
from tarmac.server.security.certificates.pki import Pki, write_kubeconfig
from tests.agent.node.settings import agent_config, agent_told
from tests.agent.node.test_node_status import FACTS, silent
from tests.support.kubectl import Kubectl
from tests.support.peer import Peer
from tests.support.tarmac_process import TarmacProcess

PROCESSES = 32_768
RESERVED = {"systemReserved": {"cpu": "2", "memory": "1Gi"}}


def large(root: Path) -> HostFacts:
    """Return a machine of 104 processors and 64Gi, from files as its kernel writes them."""
    for file, text in (("sys/devices/system/cpu/online", "0-103\n"), ("proc/meminfo", f"MemTotal: {64 << 20} kB\n")):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    return machine(root)


@dataclass
class Cluster:
    """A server with clients of an administrator and of the node, and kubectl."""

    name: str
    node: Client
    admin: Client
    kubectl: Kubectl
    folder: Path
    keeps_fields: bool

    def speaker(self, lent: Any, **file: Any) -> NodeReporter:
        """Return a new reporter of an agent with this oversubscription."""
        said = {**RESERVED, **({} if lent is None else {"cpuOverSubscriptionCapacity": lent}), **file}
        flags = {"node_name": self.name, "kube_reserved": {"cpu": "2"}}
        here = large(self.folder / "machine")
        reservations = stated_reservations(agent_told(self.folder, said, **flags), here.topology.cpus)
        sizes = NodeSizes(capacity(here, 100 << 30, 110, 0), PROCESSES, reservations)

        async def observe() -> NodeStatusFacts:
            addresses = [{"type": "InternalIP", "address": "10.9.8.7"}, {"type": "Hostname", "address": self.name}]
            return replace(FACTS, machine=here, ledger=sizes.ledger(), addresses=addresses)

        self.observe = observe
        config = agent_config(self.folder, said, **flags)
        recorder = Recorder(self.node, "kubelet")
        return NodeReporter(self.node, Informers(self.node), config, observe, recorder)

    async def started(self, lent: Any) -> NodeReporter:
        reporter = self.speaker(lent)
        async with asyncio.TaskGroup() as group:
            work = group.create_task(reporter.run())
            await reporter.registered.wait()
            work.cancel()
        await reporter.report()
        return reporter

    async def described(self) -> str:
        return await asyncio.to_thread(self.kubectl, "describe", "node", self.name)

    async def version(self) -> str:
        return (await self.admin.resource(NODES).get(self.name))["metadata"]["resourceVersion"]

    async def differences(self) -> dict[str, Any]:
        """Return the changes that the agent would write now. Equal amounts in different notation count as changes."""
        known = (await self.admin.resource(NODES).get(self.name))["status"]
        told = node_status(await self.observe(), known, self.node.clock.now(), silent)
        return changes(told if self.keeps_fields else without_own_fields(told), known)

    async def report(self, output: str = "text") -> str:
        out, err = io.StringIO(), io.StringIO()
        assert await node_report(self.admin, [self.name], Console(out, err), output) == 0
        assert err.getvalue() == ""
        return out.getvalue()


@pytest.fixture(params=["ours", pytest.param("real", marks=pytest.mark.peers)])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Cluster]:
    name, kubeconfig = f"large-{request.param}", tmp_path / "node.kubeconfig"
    if request.param == "real":
        peer: Peer = request.getfixturevalue("peer")
        kubeconfig.write_text(peer.node_kubeconfig(name))
        async for each in _cluster(name, kubeconfig, peer.kubeconfig, tmp_path, keeps_fields=False):
            yield each
        return
    with TarmacProcess(tmp_path / "data") as server:
        pki = Pki(server.data_dir / "pki", SystemClock())
        write_kubeconfig(kubeconfig, server.url, pki.ca_file.read_bytes(), pki.node(name), name)
        async for each in _cluster(name, kubeconfig, server.kubeconfig, tmp_path, keeps_fields=True):
            yield each


async def _cluster(name: str, node: Path, admin: Path, folder: Path, *, keeps_fields: bool) -> AsyncGenerator[Cluster]:
    own, person = (Client(HttpTransport(load(str(file)).http)) for file in (node, admin))
    try:
        yield Cluster(name, own, person, Kubectl(admin, folder), folder, keeps_fields)
    finally:
        await person.resource(NODES).delete(name)
        for client in (own, person):
            await client.close()


def section(text: str, title: str) -> dict[str, str]:
    """Return the entries below one heading of `kubectl describe` or of a report."""
    _, _, rest = text.partition(f"\n{title}:\n")
    lines = re.match(r"(?:  .*\n)*", rest)
    assert lines is not None
    pairs = (line.strip().rpartition(":") for line in lines[0].splitlines())
    return {name: amount.strip() for name, _, amount in pairs}


@pytest.mark.timeout(60)
async def test_kubectl_and_the_report_show_what_is_lent_out(cluster: Cluster) -> None:
    for lent, shown, read, left in (("1", "1", "1.000", "101"), (1.5, "1.500", "1.500", "101500m")):
        await cluster.started(lent)
        described = await cluster.described()
        assert section(described, "Capacity") | {"cpu": "104", "cpu oversubscription": shown} == section(
            described, "Capacity"
        )
        assert section(described, "Allocatable")["cpu"] == left
        assert "cpu oversubscription" not in section(described, "Allocatable")
        report = await cluster.report()
        assert f"\n  cpu: 104\n  cpu oversubscription: {read}\n" in report
        assert re.search(r"\n  cpu: +2 +system +file\n  cpu: +2 +kube +flag\n", report)
        assert f"\nAllocatable:\n  cpu: {left}\n" in report


@pytest.mark.timeout(60)
async def test_nothing_is_written_twice_and_nothing_stays(cluster: Cluster) -> None:
    for lent in ("1", "1.5", "250m", "1000", "0.001", "5"):
        reporter = await cluster.started(lent)
        before = await cluster.version()
        await reporter.report()
        assert await cluster.version() == before, lent
        assert await cluster.differences() == {}, lent
    for none in (0, "0", None):
        await cluster.started("1")
        await cluster.started(none)
        found = section(await cluster.described(), "Capacity")
        assert "cpu oversubscription" not in found
        assert found["cpu"] == "104"
        assert "oversubscription" not in await cluster.report()


@pytest.mark.timeout(60)
async def test_reservations_are_in_the_status_or_else_in_an_annotation(cluster: Cluster) -> None:
    await cluster.started("1")
    node = await cluster.admin.resource(NODES).get(cluster.name)
    annotation = (node["metadata"].get("annotations") or {}).get("node.tarmac/resources", "")
    assert ("reservations" in node["status"]) == cluster.keeps_fields == (not annotation)
    told = node["status"]["reservations"] if cluster.keeps_fields else json.loads(annotation)["reservations"]
    assert told == [
        {"resource": "cpu", "for": "system", "amount": "2", "source": "file"},
        {"resource": "cpu", "for": "kube", "amount": "2", "source": "flag"},
        {"resource": "memory", "for": "system", "amount": "1Gi", "source": "file"},
        {"resource": "memory", "for": "eviction", "amount": "100Mi", "source": "default"},
        {"resource": "ephemeral-storage", "for": "eviction", "amount": "10737418400", "source": "default"},
        {"resource": "pid", "for": "system", "amount": "3276", "source": "default"},
    ]
    [found] = json.loads(await cluster.report("json"))["nodes"]
    cpu = found["resources"][0]
    assert cpu == {
        "resource": "cpu",
        "capacity": "104",
        "reserved": [
            {"for": "system", "amount": "2", "source": "file"},
            {"for": "kube", "amount": "2", "source": "flag"},
        ],
        "oversubscription": "1.000",
        "allocatable": "101",
        "enforced": "100",
        "committed": "0",
    }


@pytest.mark.timeout(60)
async def test_an_annotation_from_elsewhere_goes_where_fields_are_kept(cluster: Cluster) -> None:
    await cluster.started("1")
    stale = {"metadata": {"annotations": {"node.tarmac/resources": "{}"}}}
    await cluster.admin.resource(NODES).patch(cluster.name, stale)
    await cluster.started("1")
    node = await cluster.admin.resource(NODES).get(cluster.name)
    told = (node["metadata"].get("annotations") or {}).get("node.tarmac/resources", "{}")
    assert ("reservations" in json.loads(told)) is not cluster.keeps_fields


def sizes(root: Path, lent: str, **file: Any) -> NodeSizes:
    here = large(root)
    said = agent_told(root, {**RESERVED, "cpuOverSubscriptionCapacity": lent, **file}, kube_reserved={"cpu": "2"})
    return NodeSizes(capacity(here, 100 << 30, 110, 0), PROCESSES, stated_reservations(said, here.topology.cpus))


@pytest.mark.parametrize(
    ("lent", "told"),
    [
        ("0", None),
        ("1", ("Normal", "capacity 104, reserved 4, oversubscription 1.000, allocatable 101")),
        ("4", ("Normal", "capacity 104, reserved 4, oversubscription 4.000, allocatable 104")),
        ("4001m", ("Warning", "capacity 104, reserved 4, oversubscription 4.001, allocatable 104001m")),
    ],
)
def test_each_start_tells_it_and_warns_of_more_than_is_reserved(
    tmp_path: Path, lent: str, told: tuple[str, str] | None
) -> None:
    event = oversubscription_event(sizes(tmp_path, lent).ledger())
    assert event == (told and (told[0], "CPUOverSubscription", told[1]))


def test_processors_reserved_by_number_are_what_is_reserved(tmp_path: Path) -> None:
    event = oversubscription_event(sizes(tmp_path, "5", reservedSystemCPUs="0-5").ledger())
    assert event == (
        "Normal", "CPUOverSubscription", "capacity 104, reserved 6, oversubscription 5.000, allocatable 103",
    )  # fmt: skip
