"""Kernel objects and files of a planet that can leak, as comparable text."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tarmac.agent.cgroups.mounted import mounted
from tarmac.apps.cities.agents import agents_of
from tarmac.apps.cities.layout import CityLayout
from tarmac.datapath.hosts import HostUnderlay
from tarmac.runtimes.containerd.orphans import processes_naming
from tarmac.volumes.linux import loops
from tarmac.volumes.linux.mountinfo import mounts


def traces(data_dir: Path, underlay: HostUnderlay, cities: list[CityLayout]) -> set[str]:
    """Return processes, mounts, namespaces, links, rules, routes, loops, cgroups, disks and files of machines.

    State that changes by itself is left out.
    """
    found = {f"mount {each.path}" for root in (data_dir, underlay.run) for each in mounts(str(root))}
    found |= {f"loop {loop.file}" for loop in loops.loops(str(data_dir))}
    for city in cities:
        found |= {f"{city.name} {line}" for line in (*_of_city(city), *_of_machines(city))}
    return found | {f"descriptor {each}" for pid in agents_of(data_dir) for each in _held(pid)}


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


def _of_machines(city: CityLayout) -> Iterator[str]:
    """Yield the machines' processes, which have no parent of ours, and their folders, disks and taps."""
    yield from (f"process {_program(pid)}" for pid in mounted().inhabitants(city.cgroup))
    agent = city.run / "agent"
    for folder in (agent / "vm", city.agent / "machines", city.agent / "disks"):
        yield from (f"file {path}" for path in folder.glob("*") if path.name != "staging")
    for router in (agent / "netns").glob("*"):
        for line in _of_namespace(router, "ip -o link"):
            yield f"{router.name} link {_steady('ip -o link', line)}"


def _held(pid: int) -> Iterator[str]:
    """Yield the agent's open files of machines."""
    try:
        for each in Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(each)
            if any(part in target for part in ("/machines/", "/disks/", "/agent/vm/", "/net/tun")):
                yield target
    except OSError:
        pass  # it was closed, or the agent has just been killed


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().partition("\0")[0].rpartition("/")[2]
    except OSError:
        return "a process that is ending"


def _inside(city: CityLayout, command: str) -> list[str]:
    done = subprocess.run(_enter(city.host.namespace, command), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _of_namespace(namespace: Path, command: str) -> list[str]:
    """Yield lines of a command in a namespace; none if the namespace has just gone."""
    done = subprocess.run(_enter(namespace, command), capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def _enter(namespace: Path, command: str) -> list[str]:
    return ["nsenter", f"--net={namespace}", *command.split()]


def _steady(command: str, line: str) -> str:
    """Replace a link's number, which changes, by its name."""
    return line.split()[1].partition("@")[0] if command == "ip -o link" else line.strip()


def _cgroups(path: str) -> Iterator[str]:
    hierarchy = mounted()
    pending = [path]
    while pending:
        here = pending.pop()
        yield here
        pending += [f"{here}/{child}" for child in hierarchy.children(here)]
