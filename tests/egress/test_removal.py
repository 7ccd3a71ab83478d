"""After kill -9 of all processes, `tarmac down` removes a planet with an outside completely.

The test lists its objects before: other planets on the machine have objects of the same names.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tarmac.agent.cgroups.mounted import mounted
from tarmac.apps.cities.layout import own_cgroup, pods_cgroup
from tarmac.apps.processes import find_processes
from tests.egress.planet import Outside
from tests.node.planet import command_of, down, eventually

pytestmark = [pytest.mark.root, pytest.mark.timeout(300), pytest.mark.last]


def test_after_everything_was_killed_down_leaves_nothing(outside: Outside) -> None:
    assert_down_leaves_nothing(outside, at_least=2 * len(outside.cities) + 1)


def assert_down_leaves_nothing(outside: Outside, *, at_least: int) -> None:
    """Kill all processes, remove the planet, and look for the rest. `at_least` so many networks are there before."""
    networks = set(namespaces_of(outside))
    assert len(networks) >= at_least, "at least the hosts', the egress namespaces and the outside"
    before = processes(outside, networks)
    kept = {(path, network) for path, network in kept_namespaces() if network in networks}
    assert before
    assert kept
    assert things(outside), "the list is not empty"
    outside.watch.close()  # it has a socket there
    outside.planet.process.kill()
    eventually(lambda: not kill_all(outside), what="the end of all processes")
    done = down(outside.planet.data_dir)
    assert done.returncode == 0, done.stderr
    # The kernel reuses a network's number: by then it may be that of another test's pod.
    left = {*processes(outside, set()), *(set(before) & set(processes(outside, networks)))}
    assert [command_of(each) for each in left] == []
    assert things(outside) == []
    assert kept & set(kept_namespaces()) == set()


def kill_all(outside: Outside) -> list[int]:
    """Kill them; return those that were still there."""
    found = processes(outside, set())
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


def processes(outside: Outside, networks: set[int]) -> list[int]:
    """Return all processes that are named after the planet, in its cgroups, or in its networks."""
    roots = (str(outside.planet.data_dir), str(outside.underlay.run))
    found = set(find_processes(lambda words: any(root in word for root in roots for word in words))) - {os.getpid()}
    for group in (pods_cgroup(outside.underlay), own_cgroup(outside.underlay)):
        found |= mounted().inhabitants(group) if mounted().exists(group) else set()
    return sorted(found | {pid for pid, network in networks_in_use() if network in networks})


def networks_in_use() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                yield int(entry.name), (entry / "ns" / "net").stat().st_ino


def namespaces_of(outside: Outside) -> Iterator[int]:
    """Return the networks that files of the planet keep, and those of its pods."""
    for path in outside.underlay.run.rglob("*"):
        with suppress(OSError):
            if is_namespace(path):
                yield path.stat().st_ino
    for pid in mounted().inhabitants(pods_cgroup(outside.underlay)):
        with suppress(OSError):
            yield Path(f"/proc/{pid}/ns/net").stat().st_ino


def kept_namespaces() -> Iterator[tuple[str, int]]:
    """Return all namespaces that a file of the machine keeps, with the file."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - nsfs " in line:
            with suppress(OSError):
                yield line.split()[4], Path(line.split()[4]).stat().st_ino


def is_namespace(path: Path) -> bool:
    return path.is_file() and path.stat().st_dev == Path("/proc/self/ns/net").stat().st_dev


def things(outside: Outside) -> list[str]:
    """Return links, rules, routes, mounts, sockets, cgroups and files under /run."""
    underlay, found = outside.underlay, list[str]()
    names = (underlay.bridge, underlay.table, str(underlay.run), *(city.link for city in underlay.cities))
    names = (*names, *(str(each.network_address).rpartition(".")[0] + "." for each in underlay.subnets[:1]))
    for command in ("ip -o link", "ip route show table all", "ip rule", "nft list tables"):
        shown = subprocess.run(command.split(), capture_output=True, text=True, check=True, timeout=30).stdout
        found += [f"{command}: {line}" for line in shown.splitlines() if any(name in line for name in names)]
    for file in ("/proc/self/mountinfo", "/proc/net/unix"):
        roots = (str(underlay.run), f"{outside.planet.data_dir}/")
        found += [line for line in Path(file).read_text().splitlines() if any(root in line for root in roots)]
    found += [each for each in (pods_cgroup(underlay), own_cgroup(underlay)) if mounted().exists(each)]
    return found + ([str(underlay.run)] if underlay.run.exists() else [])
