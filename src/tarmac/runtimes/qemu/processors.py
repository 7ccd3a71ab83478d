"""The processors of a guest: as many as its limit needs, and more while it runs when the limit rises.

Processors are only ever added: taking one away corrupts QEMU where it translates. When the limit falls, the cgroup's
quota holds the guest to it. What a machine has is asked of QEMU each time, so an agent that was killed in between adds
what is missing and nothing twice.
"""

from __future__ import annotations

import math
from typing import Any

from tarmac.base.log import log
from tarmac.runtimes.interface import Resources
from tarmac.runtimes.qemu.life import Life

_log = log("qemu")


def processors_of(limits: Resources) -> int:
    """How many a guest needs to use all that it may."""
    return max(1, math.ceil(limits.cpu_quota / limits.cpu_period)) if limits.cpu_period else 1


async def add_processors(life: Life, wanted: int) -> None:
    """Have at least so many, as far as there are places for them. Raises RuntimeFault."""
    places: list[dict[str, Any]] = await life.execute("query-hotpluggable-cpus")
    free = sorted((each for each in places if "qom-path" not in each), key=_place)
    missing = wanted - (len(places) - len(free))
    if missing > len(free):
        _log.info("a machine has all the processors it can have until it restarts", machine=life.record.id)
    for each in free[: max(0, missing)]:
        name = "processor-" + "-".join(map(str, _place(each)))
        await life.execute("device_add", {"driver": each["type"], "id": name, **each["props"]})


def _place(cpu: dict[str, Any]) -> tuple[int, ...]:
    """Sockets before cores before threads."""
    return tuple(int(cpu["props"].get(f"{part}-id", 0)) for part in ("socket", "die", "core", "thread"))
