"""The driver as the kernel shows it: version, GPUs and device nodes. Needs no library of NVIDIA's.

`root` is the directory that holds the driver's files, `/` but for tests and drivers in a container of their own.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VERSION: Final = Path("proc/driver/nvidia/version")
_GPUS: Final = Path("proc/driver/nvidia/gpus")
_NUMBER: Final = re.compile(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b")
_MAX_BYTES: Final = 64 * 1024
CONTROL_NODES: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. `uuid` identifies it for as long as it exists, whatever slot it is in."""

    uuid: str
    bus: str  # 0000:00:05.0
    minor: int
    product: str  # NVIDIA H200

    @property
    def node(self) -> str:
        """The device node."""
        return f"/dev/nvidia{self.minor}"


def driver_version(root: Path = Path("/")) -> str:
    """Return the version of the loaded driver, such as `580.159.04`; empty without a driver."""
    try:
        with open(root / VERSION, encoding="utf-8", errors="replace") as file:
            found = _NUMBER.search(file.readline(_MAX_BYTES))
    except OSError:
        return ""
    return found[1] if found else ""


def read_gpus(root: Path = Path("/")) -> list[Gpu]:
    """Return the GPUs that the driver serves, by minor number."""
    try:
        buses = sorted(os.listdir(root / _GPUS))
    except OSError:
        return []
    found = [gpu for bus in buses if (gpu := _gpu(root / _GPUS / bus / "information", bus)) is not None]
    return sorted(found, key=lambda gpu: gpu.minor)


def missing_node(gpu: Gpu, root: Path = Path("/")) -> str:
    """Return the first device node that the GPU needs and does not have; empty if all are there."""
    return next((node for node in (gpu.node, *CONTROL_NODES) if not _is_node(host_path(root, node))), "")


def host_path(root: Path, path: str) -> Path:
    """Return the place on this host of a path of the driver."""
    return root / path.lstrip("/")


def _gpu(path: Path, bus: str) -> Gpu | None:
    """Parse the kernel's page of one GPU; None for one that the driver has excluded or not initialized."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(_MAX_BYTES).splitlines()
    except OSError:
        return None
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    uuid, minor = told.get("GPU UUID", ""), told.get("Device Minor", "")
    # An uninitialized GPU shows question marks in its UUID.
    if not uuid or "?" in uuid or not minor.isdigit() or told.get("GPU Excluded") == "Yes":
        return None
    return Gpu(uuid, bus, int(minor), told.get("Model", ""))


def _is_node(path: Path) -> bool:
    try:
        return stat.S_ISCHR(path.stat().st_mode)
    except OSError:
        return False
