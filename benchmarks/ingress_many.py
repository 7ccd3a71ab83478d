"""1,000 public addresses with 2 ports each on a gateway: the time of one change, and the kernel's memory.

Their tables of slots all differ, which is the worst case: addresses with equal endpoints share one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from time import process_time

from benchmarks.report import Row
from benchmarks.wireends import took
from tarmac.datapath.egress import OutsideLink
from tarmac.datapath.ingress import IngressAddress, IngressDatapath, IngressState, LocalBackend, OpenPort
from tests.datapath.conftest import real_world
from tests.datapath.egress_worlds import ADDRESSES, ONE, RANGES
from tests.datapath.ingress_worlds import at, ingress_world
from tests.datapath.segment import INTERFACE

COUNT = 1000
POOL = "192.168.120.0/22"


async def many_rows(say: Callable[[str], None]) -> list[Row]:
    """Needs root."""
    say(f"{COUNT:,} addresses of 2 ports: all at once, and one endpoint's change")
    async with ingress_world(real_world()) as street:
        street.lan.look_away()
        gateway, home = street.real.node(3).ingress, street.real.node(1).ingress
        before = _kernel_bytes()
        whole = [await took(gateway.apply(_state(3)))]
        memory = (_kernel_bytes() - before) / 1e6
        at_home = [await took(home.apply(_state(1)))]
        one, cpu = await _changes(gateway, 3)
        one_at_home, cpu_at_home = await _changes(home, 1)
        return [
            Row(f"{COUNT:,} addresses × 2 ports: one endpoint's change, on a gateway", "ms", one, 50),
            Row(f"{COUNT:,} addresses × 2 ports: one endpoint's change, on its node", "ms", one_at_home, 50),
            Row(f"{COUNT:,} addresses × 2 ports: one endpoint's change, on a gateway", "CPU-ms", cpu),
            Row(f"{COUNT:,} addresses × 2 ports: one endpoint's change, on its node", "CPU-ms", cpu_at_home),
            Row(f"{COUNT:,} addresses × 2 ports, all at once, on a gateway", "s", whole),
            Row(f"{COUNT:,} addresses × 2 ports, all at once, on a node of endpoints", "s", at_home),
            Row(f"{COUNT:,} different tables of slots: the kernel's memory", "MB", [memory]),
        ]


async def _changes(datapath: IngressDatapath, node: int) -> tuple[list[float], list[float]]:
    """Change the first address repeatedly; return milliseconds, and those of CPU."""
    wall, cpu = list[float](), list[float]()
    for change in range(1, 11):
        state, began = _state(node, change), process_time()
        wall.append(1e3 * await took(datapath.apply(state)))
        cpu.append(1e3 * (process_time() - began))
    return wall, cpu


def _state(node: int, change: int = 0) -> IngressState:
    """Return a node's state; `change` is the number of changes of the first address."""
    addresses = tuple(_address(number, node, change if number == 0 else 0) for number in range(COUNT))
    return IngressState(at(node), addresses, (POOL,), tuple(map(at, (1, 2, 3, 4))), {ONE: RANGES})


def _address(number: int, node: int, change: int) -> IngressAddress:
    # Weights without a common factor, each combination once.
    nodes = ((at(1), 1 + number % 10 + 11 * change), (at(2), 1 + number // 10 % 10), (at(4), 31 + number // 100))
    backends = (LocalBackend(ONE, ADDRESSES["a"][0], 8000 + change),) if node == 1 else ()
    ports = tuple(OpenPort("TCP", port, nodes, backends) for port in (80, 443))
    own = str(ip_network(POOL)[10 + number])
    made = IngressAddress(own, ports, tuple(map(at, (1, 2, 4))))
    return replace(made, outside=OutsideLink(INTERFACE, "192.168.120.0/21")) if node == 3 else made


def _kernel_bytes() -> int:
    """Return the kernel's own memory: what it cannot reclaim, and large tables."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return sum(int(words[1]) << 10 for words in lines if words[0] in ("SUnreclaim:", "VmallocUsed:", "Percpu:"))
