"""An agent's part in public addresses, in a process of its own: its memory and its CPU, with and without addresses.

It has a real server, a real kernel and no containers: 30 Pods are objects, and endpoints of 1,000 Services that each
hold an address with two ports, of which this node is the only gateway.

    unshare --net python -m benchmarks.ingress_agent measure SECONDS          prints figures as JSON
    python -m benchmarks.ingress_agent agent KUBECONFIG FOLDER MACHINE GATE   is the agent, until it is ended
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.external_agent import core_share, create_all, until_count
from benchmarks.external_many import ADDRESS, NETWORK, NODE, PODS_EACH, VNI, make_pods, pod_address
from benchmarks.processes import resident_bytes
from benchmarks.report import Row
from tarmac.agent.config.agentconfig import settle
from tarmac.agent.config.configreader import stated
from tarmac.agent.config.flags import Flags
from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.api.egress.names import ANNOTATION_NODE_FACTS
from tarmac.api.egress.nodefacts import NodeFacts, OutsideInterface, write_facts
from tarmac.api.identities import controller_user
from tarmac.api.ingress.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.apps.node.nodeingress import NodeIngress
from tarmac.base.garbage import collect_rarely
from tarmac.base.gates import WAY_IN
from tarmac.base.heap import share_one_heap
from tarmac.base.tasks import Tasks
from tarmac.client.acting import ActingAs
from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.informer import Informers
from tarmac.client.kubeconfig import load
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import ENDPOINT_SLICES, NODES, SERVICES
from tarmac.datapath.interface import NetworkState, NodeNetworks
from tarmac.datapath.linux.datapath import LinuxDatapath
from tarmac.decide.allocatable.reservations import Reservations
from tests.datapath.conftest import real_world
from tests.datapath.egress_worlds import RANGES
from tests.datapath.segment import Segment
from tests.support.tarmac_process import TarmacProcess
from tools.cache import ROOT

COUNT = 1000
SECONDS = 30.0
_SETTLING = 5.0
_POOL = "192.168.124.0/22"  # used by no host of the segment
_POOLS = dynamic(API_VERSION, "addresspools", "AddressPool", namespaced=False)
_ADDRESSES = dynamic(API_VERSION, "publicaddresses", "PublicAddress", namespaced=False)


def agent_rows(say: Callable[[str], None], seconds: float = SECONDS) -> list[Row]:
    """Needs root."""
    say(f"an agent with the gate off and on, and with {COUNT:,} addresses, for {seconds:.0f} seconds each")
    command = ["unshare", "--net", sys.executable, "-m", "benchmarks.ingress_agent", "measure", str(seconds)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    title = f"{COUNT:,} addresses × 2 ports"
    return [
        Row("agent without pools: memory over that with the gate off", "MB", [found["empty"] / 1e6], 3),
        Row("agent without pools: CPU over that with the gate off", "% of a core", [100 * found["idle"]], 0.1),
        Row(f"{title}: agent's memory over none", "MB", [found["more"] / 1e6], 25),
        Row(f"{title}: the agent's part, idle", "% of a core", [100 * found["core"]]),
    ]


async def be_agent(kubeconfig: str, folder: Path, machine: str, *, on: bool) -> None:
    """Run the agent's part in public addresses, until cancelled."""
    share_one_heap()  # as an agent does
    folder.mkdir(exist_ok=True)
    flags = Flags(node_name=NODE, kubeconfig=Path(), root_dir=folder, node_labels={}, feature_gates={WAY_IN: on})
    config = settle(stated(flags, KubeletConfiguration()), Reservations())
    client = Client(HttpTransport(load(kubeconfig).http))
    informers = Informers(client)
    datapath = LinuxDatapath(Path(machine).parent / "run-1", machine)
    assert not await datapath.apply(NodeNetworks((ADDRESS,), (NetworkState(NETWORK, VNI, 1460, RANGES),)))
    networks: dict[str, tuple[str, ...]] = {NETWORK: RANGES}
    ingress = NodeIngress(config, client, informers, datapath, lambda: [ADDRESS], lambda: networks)
    tasks = Tasks()
    runs: Any = {"informers": informers.run, **ingress.runs()}
    for name, run in runs.items():
        tasks.begin(run(), name)
    collect_rarely(10_000)
    await asyncio.Event().wait()


async def measure(seconds: float) -> dict[str, float]:
    """Measure with the gate off, on, and with all addresses."""
    for words in ("link set lo up", f"address add {ADDRESS}/32 dev lo"):
        await asyncio.to_thread(subprocess.run, ["ip", *words.split()], check=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tarmac-bench-")))
        world = real_world()
        stack.callback(world.lab.close)
        segment = Segment(world)
        stack.callback(segment.close)
        segment.look_away()
        segment.gateway(1)
        words = ("--controllers=namespace", "--feature-gates=WayIn=true")
        server = stack.enter_context(TarmacProcess(folder / "data", *words))
        transport = HttpTransport(load(str(server.kubeconfig)).http)
        client = Client(transport)
        # Only controllers may set the addresses of a Pod.
        _ = [uid async for uid in make_pods(client, Client(ActingAs(transport, controller_user("instance"))))]
        agent = [str(server.kubeconfig), str(folder / "agent"), str(world.lab.machine(1))]
        figures: dict[str, tuple[int, float]] = {}
        for gate in ("off", "on"):
            with _agent(folder, *agent, gate) as pid:
                await asyncio.sleep(2 * _SETTLING)
                figures[gate] = resident_bytes([pid]), await core_share(pid, seconds)
        with _agent(folder, *agent, "on") as pid:
            await asyncio.sleep(2 * _SETTLING)
            none = resident_bytes([pid])
            await _addresses(client)
            await until_count(client, _announced, COUNT)
            await asyncio.sleep(_SETTLING)
            more, core = resident_bytes([pid]) - none, await core_share(pid, seconds)
        await client.close()
        (off, idle), (on, busy) = figures["off"], figures["on"]
        return {"empty": on - off, "idle": busy - idle, "more": more, "core": core}


@contextmanager
def _agent(folder: Path, *words: str) -> Generator[int]:
    command = [sys.executable, "-m", "benchmarks.ingress_agent", "agent", *words]
    with (folder / "agent.log").open("ab") as log:  # it logs each address
        process = subprocess.Popen(command, cwd=ROOT, stderr=log)
        try:
            yield process.pid
            assert process.poll() is None, (folder / "agent.log").read_text()
        finally:
            process.kill()
            process.wait()


async def _addresses(client: Client) -> None:
    """Create the addresses with their Services and slices. Endpoints are the Pods of the node, three for each."""
    facts = {ANNOTATION_NODE_FACTS: write_facts(NodeFacts([OutsideInterface("outside0", ["192.168.122.1/21"])]))}
    labels = {"submariner.io/gateway": "true"}
    await client.resource(NODES).patch(NODE, {"metadata": {"labels": labels, "annotations": facts}})
    subnet = {"prefixLength": 21, "interface": "outside0"}
    spec: JsonObject = {"ranges": [{"cidr": _POOL}], "subnet": subnet, "allowedNamespaces": {"names": ["default"]}}
    pool = {"apiVersion": API_VERSION, "kind": "AddressPool", "metadata": {"name": "public"}, "spec": spec}
    await client.resource(_POOLS).create(pool)
    await create_all(client, ENDPOINT_SLICES, list(_slices()))
    await create_all(client, SERVICES, list(_services()))
    uids = {
        each["metadata"]["name"]: each["metadata"]["uid"]
        for each in (await client.resource(SERVICES).list("default")).items
    }
    await create_all(client, _ADDRESSES, list(_held(uids)))


def _services() -> Iterator[JsonObject]:
    ports = [{"name": name, "port": port} for name, port in (("http", 80), ("https", 443))]
    for number in range(COUNT):
        spec = {"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": False}
        metadata = {"name": f"s{number}", "namespace": "default"}
        yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _slices() -> Iterator[JsonObject]:
    for number in range(COUNT):
        labels = {"kubernetes.io/service-name": f"s{number}"}
        annotations = {"networking.datumapis.com/network": NETWORK}
        metadata = {"name": f"s{number}", "namespace": "default", "labels": labels, "annotations": annotations}
        ends = [
            {"addresses": [pod_address((number + each) % PODS_EACH)], "nodeName": NODE, "conditions": {"ready": True}}
            for each in range(3)
        ]
        ports = [{"name": name, "port": port, "protocol": "TCP"} for name, port in (("http", 8080), ("https", 8443))]
        kind = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
        yield {**kind, "metadata": metadata, "endpoints": ends, "ports": ports}


def _held(uids: dict[str, str]) -> Iterator[JsonObject]:
    me = {"name": NODE, "address": ADDRESS}
    for number in range(COUNT):
        address, name = str(ip_network(_POOL)[10 + number]), f"s{number}"
        claim = {"kind": "Service", "namespace": "default", "name": name, "uid": uids[name]}
        spec = {"address": address, "poolName": "public", "claimRef": claim, "candidates": [me], "voters": [me]}
        yield {"apiVersion": API_VERSION, "kind": "PublicAddress", "metadata": {"name": address}, "spec": spec}


async def _announced(client: Client) -> int:
    found = (await client.resource(_ADDRESSES).list()).items
    return sum(any(each.get("announcing") for each in (one.get("status") or {}).get("nodes") or ()) for one in found)


if __name__ == "__main__":
    if sys.argv[1] == "agent":
        uvloop.run(be_agent(sys.argv[2], Path(sys.argv[3]), sys.argv[4], on=sys.argv[5] == "on"))
    else:
        print(json.dumps(asyncio.run(measure(float(sys.argv[2])))))
