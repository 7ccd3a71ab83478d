"""Removes the cities of a data directory from the inside out, and lists remains in the kernel.

No stored state is needed: processes are found by the directories in their command lines, mounts and loops by their
paths, links and cgroups by the directory's id. So it works after any crash, and repeatedly.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from tarmac.agent.cgroups.hierarchy import Hierarchy
from tarmac.agent.cgroups.mounted import mounted
from tarmac.apps.cities.agents import agents_of
from tarmac.apps.cities.layout import CityLayout, city_of, own_cgroup, pods_cgroup
from tarmac.apps.cities.outsiderouters import routers_of
from tarmac.apps.processes import end
from tarmac.datapath import hosts
from tarmac.datapath.linux import LinuxDatapath
from tarmac.runtimes import containerd
from tarmac.runtimes.containerd.orphans import unmount_below
from tarmac.runtimes.parts import NodeParts
from tarmac.volumes.layout import VolumeLayout
from tarmac.volumes.linux import loops
from tarmac.volumes.linux.medium import LinuxMedium
from tarmac.volumes.linux.mountinfo import mounts

_MAX_ATTEMPTS, _RETRY_DELAY = 100, 0.05  # killed processes take a moment to exit


def underlay_of(data_dir: Path) -> hosts.HostUnderlay:
    """Return the underlay with every city that ever existed, found by its directories."""
    names = {path.parent.name for path in hosts.plan(data_dir, [], hosts.free_subnet(data_dir)).run.glob("*/netns")}
    names |= {path.name for path in (data_dir / "cities").glob("*") if path.is_dir()}
    return hosts.plan(data_dir, sorted(names), hosts.free_subnet(data_dir))


async def remove_cities(data_dir: Path, underlay: hosts.HostUnderlay, parts: NodeParts) -> None:
    """Stop and remove everything that runs for these cities. The data stays."""
    cities = [city_of(host.name.upper(), underlay, data_dir) for host in underlay.cities]
    await end([*agents_of(data_dir), *routers_of(underlay.run)])
    await asyncio.gather(*(stop_city(city, parts, images=False) for city in cities))
    for loop in loops.loops(str(data_dir)):
        loops.clear(loop.device, loop.file)
    hierarchy = mounted()
    for path in (pods_cgroup(underlay), own_cgroup(underlay)):
        await empty_group(hierarchy, path)
        if hierarchy.exists(path):
            hierarchy.remove(path)
    await asyncio.to_thread(hosts.remove, underlay)


def remains(data_dir: Path, underlay: hosts.HostUnderlay) -> list[str]:
    """Describe the remains."""
    found = [f"process {pid} (agent)" for pid in agents_of(data_dir)]
    found += [f"process {pid} (router outside)" for pid in routers_of(underlay.run)]
    found += [f"mount {each.path}" for root in (data_dir, underlay.run) for each in mounts(str(root))]
    found += [f"loop device {loop.device} of {loop.file}" for loop in loops.loops(str(data_dir))]
    found += [f"cgroup {each}" for each in (pods_cgroup(underlay), own_cgroup(underlay)) if mounted().exists(each)]
    return found + hosts.remains(underlay)


async def stop_city(city: CityLayout, parts: NodeParts, *, images: bool = True) -> None:
    """Stop everything in a city and release its resources. Its data stays; its images only if wanted."""
    await containerd.stop(city.containerd(parts), remove=not images)
    await empty_group(mounted(), city.cgroup)  # virtual machines are not child processes
    await asyncio.to_thread(shutil.rmtree, city.run / "agent" / "vm", ignore_errors=True)
    if city.host.namespace.exists():
        datapath = LinuxDatapath(city.run / "agent", str(city.host.namespace))
        await datapath.remove_all()
        await datapath.close()
    await asyncio.to_thread(LinuxMedium(VolumeLayout(str(city.agent))).close)
    for folder in (city.data, city.run / "agent"):
        await asyncio.to_thread(unmount_below, folder)


async def empty_group(hierarchy: Hierarchy, path: str) -> None:
    """Kill all processes in a cgroup and below, and wait until they have exited, for a limited time."""
    for _ in range(_MAX_ATTEMPTS):
        if not hierarchy.exists(path) or not hierarchy.kill(path):
            return
        await asyncio.sleep(_RETRY_DELAY)
