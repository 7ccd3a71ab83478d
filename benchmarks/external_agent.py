"""An agent's part in external services, in a process of its own: its memory, and its CPU while it is idle.

It has a real server, a real kernel and no containers: 30 Pods are objects, all of them sources of 100 ExternalServices,
with 500 addresses that the same node may carry. That is more than one node ever has.

    unshare --net python -m benchmarks.external_agent measure SECONDS     prints figures as JSON
    python -m benchmarks.external_agent agent KUBECONFIG FOLDER MACHINE   is the agent, until it is ended
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.external_many import (
    ADDRESS,
    ADDRESSES,
    NETWORK,
    NODE,
    PODS_EACH,
    SERVICES,
    VNI,
    forwarders,
    gateways,
    make_pods,
)
from benchmarks.processes import cpu_seconds, resident_bytes
from benchmarks.report import Row
from tarmac.agent.config.agentconfig import settle
from tarmac.agent.config.configreader import stated
from tarmac.agent.config.flags import Flags
from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.api.egress.names import ANNOTATION_NODE_FACTS, API_VERSION, NAMESPACE
from tarmac.api.identities import controller_user
from tarmac.api.schema import JsonObject
from tarmac.apps.node.nodeegress import NodeExternal
from tarmac.base.garbage import collect_rarely
from tarmac.base.heap import share_one_heap
from tarmac.base.tasks import Tasks
from tarmac.client.acting import ActingAs
from tarmac.client.client import Client
from tarmac.client.eventrecorder import Recorder
from tarmac.client.http import HttpTransport
from tarmac.client.informer import Informers
from tarmac.client.kubeconfig import load
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NODES
from tarmac.datapath.interface import NetworkState, NodeNetworks
from tarmac.datapath.linux.datapath import LinuxDatapath
from tarmac.decide.allocatable.reservations import Reservations
from tests.datapath.conftest import real_world
from tests.datapath.egress_worlds import RANGES
from tests.datapath.segment import Segment
from tests.support.tarmac_process import TarmacProcess
from tools.cache import ROOT

CARRIED = 100
SECONDS = 30.0
_SETTLING = 3.0
_ANNOUNCED = 65.0  # new addresses are announced on their segment for a minute
_FORWARDERS = dynamic(API_VERSION, "forwarders", "Forwarder")
_GATEWAYS = dynamic(API_VERSION, "gateways", "Gateway")


def agent_rows(say: Callable[[str], None], seconds: float = SECONDS) -> list[Row]:
    """Needs root."""
    say(f"an agent that carries {CARRIED} addresses, for {seconds:.0f} seconds; then {ADDRESSES}, as long")
    command = ["unshare", "--net", sys.executable, "-m", "benchmarks.external_agent", "measure", str(seconds)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    title = f"{SERVICES} ExternalServices of {PODS_EACH} pods, {ADDRESSES} SourceIPs"
    return [
        Row(f"gateway of {CARRIED} addresses, idle: the agent's part", "% of a core", [100 * found["core"]], 1),
        Row(f"gateway of {ADDRESSES} addresses, idle: the agent's part", "% of a core", [100 * found["all"]], 1.5),
        Row(f"{title}: agent's memory over none", "MB", [found["more"] / 1e6], 10),
    ]


async def be_agent(kubeconfig: str, folder: Path, machine: str) -> None:
    """Run the agent's part in external services, until cancelled."""
    share_one_heap()  # as an agent does
    folder.mkdir()
    flags = Flags(node_name=NODE, kubeconfig=Path(), root_dir=folder, node_labels={}, feature_gates={})
    config = settle(stated(flags, KubeletConfiguration()), Reservations())
    client = Client(HttpTransport(load(kubeconfig).http))
    informers, recorder = Informers(client), Recorder(client, "kubelet", NODE)
    datapath = LinuxDatapath(Path(machine).parent / "run-1", machine)
    assert not await datapath.apply(NodeNetworks((ADDRESS,), (NetworkState(NETWORK, VNI, 1460, RANGES),)))
    external = NodeExternal(config, client, informers, datapath.external, lambda: [ADDRESS], recorder)
    tasks = Tasks()
    runs: Any = {"events": recorder.run, "informers": informers.run, **external.runs()}
    for name, run in runs.items():
        tasks.begin(run(), name)
    collect_rarely(10_000)
    await asyncio.Event().wait()


async def measure(seconds: float) -> dict[str, float]:
    """Measure without objects, with addresses to carry, and with all of it."""
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
        server = stack.enter_context(TarmacProcess(folder / "data", "--controllers=namespace"))
        transport = HttpTransport(load(str(server.kubeconfig)).http)
        client = Client(transport)
        # Only controllers may set the addresses of a Pod.
        uids = [uid async for uid in make_pods(client, Client(ActingAs(transport, controller_user("instance"))))]
        words = ["agent", str(server.kubeconfig), str(folder / "agent"), str(world.lab.machine(1))]
        command = [sys.executable, "-m", "benchmarks.external_agent", *words]
        log = stack.enter_context((folder / "agent.log").open("ab"))  # it logs each address
        agent = await asyncio.to_thread(subprocess.Popen, command, cwd=ROOT, stderr=log)
        stack.callback(agent.wait)
        stack.callback(agent.kill)
        await until_count(client, _reported, 1)
        await asyncio.sleep(_SETTLING)
        none = resident_bytes([agent.pid])
        addresses = list(gateways())
        await create_all(client, _GATEWAYS, addresses[:CARRIED])
        await until_count(client, _carried, CARRIED)
        await asyncio.sleep(_SETTLING)
        core = await core_share(agent.pid, seconds)
        await create_all(client, _GATEWAYS, addresses[CARRIED:])
        await create_all(client, _FORWARDERS, list(forwarders(uids)))
        await until_count(client, _carried, ADDRESSES)
        await until_count(client, _applied, SERVICES)
        await asyncio.sleep(_SETTLING)
        found = {"core": core, "more": resident_bytes([agent.pid]) - none}
        await asyncio.sleep(_ANNOUNCED)
        found["all"] = await core_share(agent.pid, seconds)
        await client.close()
        return found


async def core_share(pid: int, seconds: float) -> float:
    """Return the CPU that a process uses, as a part of one core."""
    began, before = time.monotonic(), cpu_seconds([pid])
    await asyncio.sleep(seconds)
    return (cpu_seconds([pid]) - before) / (time.monotonic() - began)


async def create_all(client: Client, target: Any, objects: list[JsonObject]) -> None:
    for start in range(0, len(objects), 16):
        await asyncio.gather(*(client.resource(target).create(each) for each in objects[start : start + 16]))


async def _reported(client: Client) -> int:
    """Return 1 once the agent has reported its features, which means that it is up."""
    notes = (await client.resource(NODES).get(NODE))["metadata"].get("annotations") or {}
    return int(ANNOTATION_NODE_FACTS in notes)


async def _carried(client: Client) -> int:
    found = (await client.resource(_GATEWAYS).list(NAMESPACE)).items
    return sum(any(each.get("owner") for each in (one.get("status") or {}).get("nodes") or ()) for one in found)


async def _applied(client: Client) -> int:
    found = [one.get("status") or {} for one in (await client.resource(_FORWARDERS).list(NAMESPACE)).items]
    return sum(bool(one.get("appliedGeneration")) and not one.get("errors") for one in found)


async def until_count(client: Client, count: Callable[[Client], Any], wanted: int) -> None:
    async with asyncio.timeout(300):
        while True:
            if await count(client) >= wanted:
                return
            await asyncio.sleep(1.0)


if __name__ == "__main__":
    if sys.argv[1] == "agent":
        uvloop.run(be_agent(sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
    else:
        print(json.dumps(asyncio.run(measure(float(sys.argv[2])))))
