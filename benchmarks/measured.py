"""One subject through every scenario, in an order that keeps them from disturbing each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks import scenarios
from benchmarks.processes import resident_bytes
from benchmarks.scenarios import CONFIG_MAPS, METADATA, TABLE, Cost
from benchmarks.subjects import Subject


@dataclass
class Measured:
    """Values of repeated runs."""

    get: list[Cost] = field(default_factory=list[Cost])
    floor: list[Cost] = field(default_factory=list[Cost])  # of the null handler, each right after the GETs beside it
    create: list[Cost] = field(default_factory=list[Cost])
    create_one: list[Cost] = field(default_factory=list[Cost])
    list_cpu_ms: list[float] = field(default_factory=list[float])
    list_wall_ms: list[float] = field(default_factory=list[float])
    gzip_cpu_ms: list[float] = field(default_factory=list[float])
    table_cpu_ms: list[float] = field(default_factory=list[float])
    metadata_cpu_ms: list[float] = field(default_factory=list[float])
    create_few: list[Cost] = field(default_factory=list[Cost])
    update: list[Cost] = field(default_factory=list[Cost])
    create_pod: list[Cost] = field(default_factory=list[Cost])
    report_pod: list[Cost] = field(default_factory=list[Cost])
    watch_p50_ms: list[float] = field(default_factory=list[float])
    sync_ms: list[float] = field(default_factory=list[float])  # an fdatasync of this disk, right before
    fan_out_us: list[float] = field(default_factory=list[float])
    send_us: list[float] = field(default_factory=list[float])  # a plain send on this machine, right before
    resident_mb: list[float] = field(default_factory=list[float])
    growth_kb: list[float] = field(default_factory=list[float])


OBJECTS_AT_START = 30_000


async def fill(subject: Subject, count: int) -> None:
    """Create so many objects of 1 KB."""
    await scenarios.make_namespace(subject, "bench-start")
    await scenarios.create(subject, "bench-start", "item", count, 64)


async def measure(subject: Subject, repeat: int, floor: Subject | None = None, full: bool = True) -> Measured:
    """Memory first, on a fresh server; then reads; then writes that leave more objects behind."""
    result = Measured()
    scale = 1.0 if full else 0.3  # the real server is slower; fewer requests give the same figures
    for name in ("list", "create", "pods", "watch", "grow"):
        await scenarios.make_namespace(subject, f"bench-{name}")
    await scenarios.create(subject, "bench-list", "item", 5000, 32, size=1250)
    result.resident_mb.append(resident_bytes(subject.pids) / 1e6)
    for _ in range(repeat):
        cpu, wall, size = await scenarios.list_all(subject, "bench-list", 3, gzip=False)
        assert size > 5_000_000, f"the list has only {size} bytes"
        result.list_cpu_ms.append(cpu)
        result.list_wall_ms.append(wall)
    await scenarios.list_all(subject, "bench-list", 1, gzip=True)
    for _ in range(repeat):
        result.gzip_cpu_ms.append((await scenarios.list_all(subject, "bench-list", 3, gzip=True))[0])
    for accept, costs in ((TABLE, result.table_cpu_ms), (METADATA, result.metadata_cpu_ms)):
        await scenarios.list_all(subject, "bench-list", 1, accept=accept)  # the first fills the caches
        for _ in range(repeat):
            costs.append((await scenarios.list_all(subject, "bench-list", 3, accept=accept))[0])
    path = CONFIG_MAPS.format("bench-list") + "/item-7"
    for run in range(repeat):
        result.get.append(await scenarios.get(subject, path, int(20000 * scale)))
        if floor is not None:
            result.floor.append(await scenarios.get(floor, "/"))
        result.create.append(await scenarios.create(subject, "bench-create", f"c64-{run}", int(5000 * scale), 64))
        few = (subject, "bench-create", f"c16-{run}", int(5000 * scale), 16)
        result.create_few.append(await scenarios.create(*few))
        result.update.append(await scenarios.update(*few))
        pods = (subject, "bench-pods", f"p-{run}", int(1500 * scale), 16)
        result.create_pod.append(await scenarios.create_pods(*pods))
        result.report_pod.append(await scenarios.report_pods(*pods))
        result.create_one.append(await scenarios.create(subject, "bench-create", f"c1-{run}", int(500 * scale), 1))
        result.sync_ms.append(scenarios.fdatasync_ms())
        result.watch_p50_ms.append((await scenarios.watch_latency(subject, "bench-watch", f"w-{run}"))[0])
        result.send_us.append(scenarios.plain_send_us())
        result.fan_out_us.append((await scenarios.fan_out(subject, "bench-watch", f"f-{run}"))[0])
    result.growth_kb.append(await scenarios.growth_per_object(subject, "bench-grow", 10000) / 1e3)
    return result
