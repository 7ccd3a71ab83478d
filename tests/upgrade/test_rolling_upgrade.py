"""Three servers on one etcd and three real nodes go from the previous version to this one under load.

Servers first, one after the other; old and new ones write side by side for a while, for ten minutes in a soak; then the
nodes. No instance restarts, no acknowledged write is lost, watches miss no change, and clients with one retry see no
error. The format of the store is raised when the last old server has gone, and not before.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tarmac import __version__
from tarmac.base.clock import SystemClock
from tarmac.server.security.certificates.pki import Pki, write_kubeconfig
from tarmac.store.etcd.format import FORMAT
from tests.soak import SOAK
from tests.store.conftest import ETCDS, etcd_binary
from tests.support.agent_process import AgentProcess, until
from tests.support.containerd import ContainerdNode
from tests.support.etcd import EtcdCluster
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess
from tests.upgrade.cities import location, workload
from tests.upgrade.load import Watcher, Writer, client_of, count, counter

SIDE_BY_SIDE = 600.0 if SOAK else 3.0
CITIES = ("DFW", "SEA", "LHR")
PREFIX = "/rolling"

pytestmark = [pytest.mark.root, pytest.mark.soak(minutes=12), pytest.mark.timeout(240 + SIDE_BY_SIDE)]


class Fleet:
    """Servers and nodes of the previous version, and instances on them."""

    def __init__(self, folder: Path, previous: Path, nodes: list[ContainerdNode]) -> None:
        self.folder = folder
        (folder / "etcd").mkdir()
        self.etcd = EtcdCluster(etcd_binary(ETCDS[-1]), folder / "etcd")
        flags = [
            f"--store=etcd://{self.etcd.endpoints[0]}?prefix={PREFIX}&compact=0",
            f"--pki-dir={folder / 'pki'}",
            f"--encryption-key-file={folder / 'secrets.key'}",
        ]
        self.servers = [TarmacProcess(folder / f"server-{number}", *flags, python=previous) for number in range(3)]
        for server in self.servers:  # not loopback: servers announce the address at which other machines reach them
            server.url = f"https://{nodes[0].gateway}:0"
        self.nodes = nodes
        self.previous = previous
        self.agents: list[AgentProcess] = []

    @property
    def kubectl(self) -> Kubectl:
        """Run kubectl at the first server."""
        return Kubectl(self.servers[0].kubeconfig, self.folder)

    def start(self, stack: ExitStack) -> None:
        """Start everything."""
        stack.callback(self.etcd.stop)
        self.etcd.start()
        for server in self.servers:
            stack.enter_context(server)
        for city in CITIES:
            self.kubectl("create", "-f", "-", stdin=json.dumps(location(city)))
        for number, city in enumerate(CITIES):
            self._add_agent(number, city, stack)
        for agent, city in zip(self.agents, CITIES, strict=True):
            agent.await_ready(90)  # only an administrator sets a node's location
            self.kubectl("label", "node", agent.name, f"topology.datum.net/location={city.lower()}")
        stack.callback(self.remove_pods)
        self.kubectl("create", "-f", "-", stdin=json.dumps(workload(CITIES)))
        self.kubectl("create", "-f", "-", stdin=json.dumps(counter()))
        until(lambda: len(self.running()) == len(CITIES), 120)

    def _add_agent(self, number: int, city: str, stack: ExitStack) -> None:
        name, pki = f"{city.lower()}-0", Pki(self.folder / "pki", SystemClock())
        folder = self.folder / name
        folder.mkdir()
        url = self.servers[number].url
        write_kubeconfig(folder / "kubeconfig", url, pki.ca_file.read_bytes(), pki.node(name), name)
        node = self.nodes[number]
        own = [f"--node-ip={node.gateway}"] if number else []  # different for each node, and from the server's
        agent = AgentProcess(folder, name, node, folder / "kubeconfig", *own)
        agent.python = self.previous
        self.agents.append(agent)
        stack.push(agent)  # it is ended also if it never becomes ready
        agent.launch()

    def remove_pods(self) -> None:
        """Remove all pods, so that nodes leave nothing."""
        self.kubectl.run("delete", "workload", "web", "--wait=false")
        until(lambda: not any(agent.pods for agent in self.agents), 60)

    def running(self) -> set[tuple[str, str, int]]:
        """Return uid, container and restarts of each running pod."""
        pods: list[dict[str, Any]] = json.loads(self.kubectl("get", "pods", "-o", "json"))["items"]
        return {
            (pod["metadata"]["uid"], each["containerID"], each["restartCount"])
            for pod in pods
            for each in pod["status"].get("containerStatuses") or ()
            if each["ready"]
        }

    def one_more_in_each_city(self) -> set[tuple[str, str, int]]:
        """Old agents still run workloads of new servers."""
        placements = workload(CITIES, replicas=2)["spec"]["placements"]
        self.kubectl("patch", "workload", "web", "--type=merge", "-p", json.dumps({"spec": {"placements": placements}}))
        until(lambda: len(self.running()) == 2 * len(CITIES), 120)
        return self.running()

    def format(self) -> str:
        """Return the format number below the prefix; a missing one means 1."""
        key = base64.b64encode(f"{PREFIX}/!format".encode()).decode()
        answer = self.etcd.call("/v3/kv/range", json.dumps({"key": key}))
        found = json.loads(answer.partition("\r\n\r\n")[2]).get("kvs") or [{"value": ""}]
        return base64.b64decode(found[0]["value"]).decode()

    def upgrade(self, process: TarmacProcess | AgentProcess) -> None:
        """Upgrade one of them, as an operator does."""
        process.stop()
        process.python = Path(sys.executable)
        if isinstance(process, TarmacProcess):
            process.program = ("tests.upgrade.hurried",)
        process.start()


@pytest.fixture
def fleet(
    previous: Path,
    containerd_node: ContainerdNode,
    spare_node: ContainerdNode,
    second_spare_node: ContainerdNode,
    tmp_path: Path,
) -> Iterator[Fleet]:
    made = Fleet(tmp_path, previous, [containerd_node, spare_node, second_spare_node])
    with ExitStack() as stack:
        made.start(stack)
        yield made


async def test_servers_then_nodes_while_everybody_works(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    before, ended = fleet.running(), asyncio.Event()
    writers = [Writer(f"w{number}", client_of(fleet.servers, number)) for number in range(3)]
    watchers = [Watcher(client_of(fleet.servers, number)) for number in range(3)]
    async with asyncio.TaskGroup() as group:
        for each in (*writers, *watchers):
            group.create_task(each.work(ended))
        group.create_task(count(client_of(fleet.servers, 1), ended))
        for server in fleet.servers:
            await asyncio.to_thread(fleet.upgrade, server)
            if server is not fleet.servers[-1]:
                await asyncio.sleep(SIDE_BY_SIDE / 2)
                assert fleet.format() == "", "an old server is still there"
        more = await asyncio.to_thread(fleet.one_more_in_each_city)
        for agent in fleet.agents:
            await asyncio.to_thread(fleet.upgrade, agent)
        await asyncio.to_thread(until, lambda: fleet.format() == str(FORMAT), 30)
        ended.set()
    _nothing_lost(fleet, writers, watchers)
    assert before < more
    assert fleet.running() == more, "an instance was replaced or restarted"
    versions = fleet.kubectl("get", "nodes", "-o", r"jsonpath={.items[*].metadata.annotations.tarmac\.dev/version}")
    assert versions.split() == [__version__] * len(CITIES)
    raised = [server for server in fleet.servers if "store upgraded from format 1 to " in server.log.read_text()]
    assert len(raised) == 1
    with capsys.disabled():
        writes, retried = sum(each.writes for each in writers), sum(each.retried for each in writers)
        heard = [len(each.heard) for each in watchers]
        print(f"\nrolling upgrade: {writes} writes, {retried} tried twice, none lost; watches heard {heard}")


def _nothing_lost(fleet: Fleet, writers: list[Writer], watchers: list[Watcher]) -> None:
    assert [each.noticed for each in writers] == [[], [], []]
    for server in fleet.servers:
        kubectl = Kubectl(server.kubeconfig, fleet.folder)
        found = json.loads(kubectl("get", "configmaps,secrets", "-l", "by", "-o", "json"))["items"]
        stored = {each["metadata"]["name"]: _plain(each) for each in found}
        assert stored == {name: value for each in writers for name, value in each.kept.items()}
    for watcher in watchers:
        heard = watcher.heard
        assert heard == list(range(heard[0], heard[-1] + 1)), "a change was missed, repeated or invented"


def _plain(found: dict[str, Any]) -> str:
    value = found["data"]["n"]
    return base64.b64decode(value).decode() if found["kind"] == "Secret" else value
