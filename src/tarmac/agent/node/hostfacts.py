"""Facts about the machine for a Node's capacity and info, read from the kernel and from files.

All paths are below a `root`, so that tests provide their own /proc, /sys and /etc.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from tarmac.agent.stats.topology import topology
from tarmac.decide.allocatable.reservations import STORAGE
from tarmac.decide.amounts import CPU, MEMORY, PODS, Amounts
from tarmac.decide.cpus.topology import Topology

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts that do not change while the agent runs."""

    topology: Topology
    memory: int  # bytes
    swap: int
    huge_pages: tuple[tuple[str, int], ...]  # ("2Mi", bytes)
    machine_id: str
    system_uuid: str
    boot_id: str
    kernel: str
    os_image: str
    architecture: str

    @property
    def processors(self) -> int:
        """The number of online processors."""
        return len(self.topology.cpus)


def machine(root: Path = Path("/")) -> HostFacts:
    """Return the facts about this machine."""
    memory = _meminfo(root)
    machine_id = _first(root, "etc/machine-id", "var/lib/dbus/machine-id")
    return HostFacts(
        topology=topology(root),
        memory=memory["MemTotal"],
        swap=memory.get("SwapTotal", 0),
        huge_pages=tuple(_huge_pages(root / "sys/kernel/mm/hugepages")),
        machine_id=machine_id,
        # Readable by root only, and missing on machines without DMI.
        system_uuid=_first(root, "sys/class/dmi/id/product_uuid", "proc/device-tree/vm,uuid") or machine_id,
        boot_id=_first(root, "proc/sys/kernel/random/boot_id"),
        kernel=platform.release(),
        os_image=_os_image(root),
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
    )


def capacity(machine: HostFacts, storage: int, max_pods: int, pods_per_core: int) -> Amounts:
    """Return the total capacity. `storage` is the size of the file system pods write to."""
    pods = min(pods_per_core * machine.processors, max_pods) if pods_per_core else max_pods
    huge = {f"hugepages-{size}": amount for size, amount in machine.huge_pages}
    return {CPU: machine.processors * 1000, MEMORY: machine.memory, STORAGE: storage, PODS: pods, **huge}


def _meminfo(root: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        found[name] = int(words[0]) * (1024 if len(words) > 1 else 1)
    return found


def _huge_pages(directory: Path) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for entry in sorted(directory.glob("hugepages-*kB")):
        kilobytes = int(entry.name.removeprefix("hugepages-").removesuffix("kB"))
        size = f"{kilobytes >> 20}Gi" if kilobytes >= 1 << 20 else f"{kilobytes >> 10}Mi"
        found.append((size, int((entry / "nr_hugepages").read_text()) * kilobytes * 1024))
    return found


def _first(root: Path, *files: str) -> str:
    """Return the content of the first readable file."""
    for file in files:
        try:
            return (root / file).read_text().strip("\0\n ")
        except OSError:
            continue
    return ""


def _os_image(root: Path) -> str:
    for line in _first(root, "etc/os-release", "usr/lib/os-release").splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip().strip('"')
    return "Unknown"
