"""What a planet has in the kernel: the sum of everything that can leak, as text that can be compared."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tarmac.agent.cgroups.hierarchy import mounted
from tarmac.apps.cities.layout import CityLayout
from tarmac.datapath.hosts import HostUnderlay
from tarmac.runtimes.containerd.leftovers import processes_naming
from tarmac.volumes.linux import loops
from tarmac.volumes.linux.mountinfo import mounts


def traces(data_dir: Path, underlay: HostUnderlay, cities: list[CityLayout]) -> set[str]:
    """Processes, mounts, namespaces, links, rules, routes, loops and cgroups, without what changes by itself."""
    found = {f"mount {each.path}" for root in (data_dir, underlay.run) for each in mounts(str(root))}
    found |= {f"loop {loop.file}" for loop in loops.loops(str(data_dir))}
    for city in cities:
        found |= {f"{city.name} {line}" for line in _of_city(city)}
    return found


def _of_city(city: CityLayout) -> Iterator[str]:
    programs = Counter(_program(pid) for pid in processes_naming(city.run / "c"))
    yield from (f"{count} of {program}" for program, count in programs.items())
    for folder in city.run.rglob("netns"):
        if folder.is_dir():
            yield from (f"namespace {path.name}" for path in folder.iterdir())
    for command in ("ip -o link", "ip route", "ip -6 route", "nft list tables"):
        for line in _inside(city, command):
            yield f"{command}: {_steady(command, line)}"
    yield from (f"cgroup {path}" for path in _cgroups(city.cgroup))


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().partition("\0")[0].rpartition("/")[2]
    except OSError:
        return "a process that is ending"


def _inside(city: CityLayout, command: str) -> list[str]:
    done = subprocess.run(
        ["nsenter", f"--net={city.host.namespace}", *command.split()], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def _steady(command: str, line: str) -> str:
    """A link's name stays when its number does not."""
    return line.split()[1].partition("@")[0] if command == "ip -o link" else line.strip()


def _cgroups(path: str) -> Iterator[str]:
    hierarchy = mounted()
    pending = [path]
    while pending:
        here = pending.pop()
        yield here
        pending += [f"{here}/{child}" for child in hierarchy.children(here)]
