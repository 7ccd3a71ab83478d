"""The CPUs of a guest: as many as its limit needs; more are hot-plugged when the limit rises.

CPUs are only ever added: removing one corrupts QEMU with TCG. When the limit falls, the cgroup's quota enforces it. The
current CPUs are queried from QEMU each time, so after a crash in between, the next agent adds only the missing ones.
"""

from __future__ import annotations

from typing import Any

from tarmac.base.log import log
from tarmac.runtimes.interface import Resources
from tarmac.runtimes.qemu.supervisor import MachineSupervisor

_log = log("qemu")


def processors_of(limits: Resources) -> int:
    """Return the CPU count that a guest needs to use its whole limit."""
    return max(1, -(-limits.cpu_quota // limits.cpu_period)) if limits.cpu_period else 1


async def add_processors(supervisor: MachineSupervisor, wanted: int) -> None:
    """Hot-plug CPUs until the guest has `wanted`, as far as it has free slots. Raises RuntimeFault."""
    places: list[dict[str, Any]] = await supervisor.execute("query-hotpluggable-cpus")
    free = sorted((each for each in places if "qom-path" not in each), key=_place)
    missing = wanted - (len(places) - len(free))
    if missing > len(free):
        _log.info("machine has its maximum of CPUs until it restarts", machine=supervisor.record.id)
    for each in free[: max(0, missing)]:
        name = "processor-" + "-".join(map(str, _place(each)))
        await supervisor.execute("device_add", {"driver": each["type"], "id": name, **each["props"]})


def _place(cpu: dict[str, Any]) -> tuple[int, ...]:
    """Sort key: sockets before dies before cores before threads."""
    return tuple(int(cpu["props"].get(f"{part}-id", 0)) for part in ("socket", "die", "core", "thread"))
