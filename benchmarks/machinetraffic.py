"""The TCP rate of a guest from a sandbox on the same node, beside that of another sandbox.

The same shell script runs in both: it fetches a file, then sends lines to an echo server and reads them back, one at a
time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machines import remove_workload, workload
from benchmarks.nodes import Bench
from tarmac.client.targets.untyped import PODS, WORKLOADS
from tests.node.planet import busybox, pod
from tests.support.kubectl import Kubectl

_MEGABYTES, _TURNS = 32, 200
_SERVER = f"dd if=/dev/zero of=/tmp/file bs=1M count={_MEGABYTES}; httpd -p 8080 -h /tmp; exec nc -ll -p 9000 -e cat"
_SCRIPT = """\
t() {{ read now rest < /proc/uptime; echo $now; }}
a=$(t); wget -qO /dev/null http://{address}:8080/file; b=$(t)
mkfifo /tmp/in /tmp/out; nc {address} 9000 < /tmp/in > /tmp/out & exec 3> /tmp/in 4< /tmp/out
c=$(t); n=0; while [ $n -lt {turns} ]; do echo x >&3; read line <&4; n=$((n+1)); done; d=$(t)
"""
_REPORT_COMMAND = 'echo; echo "measured $a $b $c $d"'
_PATIENCE = 300.0


@dataclass(frozen=True)
class Traffic:
    """Megabytes a second, and milliseconds there and back."""

    rate: float
    round_trip: float


async def traffic(bench: Bench, kubeconfig: Path) -> tuple[Traffic, Traffic]:
    """Measure a guest and a sandbox."""
    kubectl = Kubectl(kubeconfig, kubeconfig.parent)
    server = await _pod(bench, "server", _SERVER)
    address = (await bench.client.resource(PODS).get(server, "default"))["status"]["podIP"]
    script = _SCRIPT.format(address=address, turns=_TURNS)
    await _pod(bench, "client", f"{script}{_REPORT_COMMAND}; sleep 1000000")
    sandbox = await _measured(kubectl, "client")
    body = workload("traffic", "tarmac/tiny", memory="256Mi")
    machine = body["spec"]["template"]["spec"]["runtime"]["virtualMachine"]
    machine["cloudInit"] = {"userData": f"#!/bin/sh\n{script}({_REPORT_COMMAND}) > /dev/ttyS0\n"}
    await bench.client.resource(WORKLOADS).create(body)
    await bench.until(lambda: bench.is_ready("traffic-"))
    guest = await _measured(kubectl, bench.name_of("traffic-"))
    await remove_workload(bench, "traffic")
    for each in ("client", "server"):
        await bench.remove_pod(each)
    return guest, sandbox


async def _pod(bench: Bench, name: str, script: str) -> str:
    """A sandbox that runs this script."""
    body = pod(name, busybox("main", script), runtimeClassName="gvisor")
    body["metadata"]["namespace"] = "default"
    await bench.client.resource(PODS).create(body)
    await bench.until(lambda: bench.is_ready(name))
    return name


async def _measured(kubectl: Kubectl, name: str) -> Traffic:
    """Return the results in a log."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            logs = await asyncio.to_thread(kubectl.run, "logs", name)
            lines = [each.split()[1:] for each in logs.out.splitlines() if each.startswith("measured ")]
            if lines:
                fetching, fetched, turning, turned = map(float, lines[0])
                return Traffic(_MEGABYTES / (fetched - fetching), 1e3 * (turned - turning) / _TURNS)
            await asyncio.sleep(1)
