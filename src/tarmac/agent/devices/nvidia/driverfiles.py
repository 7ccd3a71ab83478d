"""The driver's user-space files, and their read-only mounts in a container.

A container needs the libraries of exactly the loaded driver, so they come from the host. They are mounted one by one
below /usr/local/nvidia, where CUDA images look, and no other file of the host is.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LIBRARIES: Final = "/usr/local/nvidia/lib64"
PROGRAMS: Final = "/usr/local/nvidia/bin"
CAPABILITIES: Final = {
    "compute": (
        "libcuda", "libcudadebugger", "libnvidia-ptxjitcompiler", "libnvidia-nvvm", "libnvidia-nvvm70",
        "libnvidia-opencl", "libnvidia-gpucomp", "libnvidia-allocator", "libnvidia-tileiras", "libnvidia-sandboxutils",
    ),
    "utility": ("libnvidia-ml", "libnvidia-cfg"),
}  # fmt: skip
"""The libraries of each capability that NVIDIA's own names stand for, without their suffix."""
_PROGRAMS: Final = {"compute": (), "utility": ("nvidia-smi", "nvidia-debugdump")}
_USUAL: Final = (
    "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/lib64", "/usr/lib",
)  # fmt: skip
_PLACES_OF_PROGRAMS: Final = ("/usr/local/nvidia/bin", "/usr/bin", "/usr/local/bin", "/opt/bin")
_TIMEOUT: Final = 10.0
NVML: Final = "libnvidia-ml.so.1"


@dataclass(frozen=True, slots=True)
class DriverFile:
    """One file: its path on the host, and its path in a container."""

    host: str
    container: str


def driver_files(root: Path, version: str, capabilities: Collection[str]) -> list[DriverFile]:
    """Return the files for these capabilities; empty if the driver's libraries are nowhere."""
    folder = library_folder(root, version)
    if folder is None:
        return []
    stems = [stem for name in CAPABILITIES if name in capabilities for stem in CAPABILITIES[name]]
    libraries = [file for stem in stems for file in _library(folder, stem)]
    programs = [name for each in _PROGRAMS if each in capabilities for name in _PROGRAMS[each]]
    return [*libraries, *_found_programs(root, programs)]


def library_folder(root: Path, version: str) -> Path | None:
    """Return the folder with the libraries of this version of the driver, or None."""
    places = [*_USUAL, *(_of_the_loader() if root == Path("/") else ())]
    folders = list(dict.fromkeys(root / place.lstrip("/") for place in places))
    # A machine may still have libraries of a former driver, which the loaded one refuses.
    exact = (each for each in folders if (each / f"libcuda.so.{version}").exists())
    return next(exact, None) or next((each for each in folders if (each / "libcuda.so.1").exists()), None)


def _library(folder: Path, stem: str) -> Iterator[DriverFile]:
    """Yield a library under each name that programs load it by: `.so`, `.so.1`, or its version if it has no other."""
    names = sorted(each for each in _listed(folder) if each.startswith(f"{stem}.so"))
    short = [each for each in names if each.count(".") <= 2]
    for name in short or names:
        real = os.path.realpath(folder / name)
        if os.path.isfile(real):
            yield DriverFile(real, f"{LIBRARIES}/{name}")


def _found_programs(root: Path, names: Sequence[str]) -> Iterator[DriverFile]:
    for name in names:
        for place in _PLACES_OF_PROGRAMS:
            path = root / place.lstrip("/") / name
            if os.access(path, os.X_OK):
                yield DriverFile(os.path.realpath(path), f"{PROGRAMS}/{name}")
                break


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _of_the_loader() -> list[str]:
    """Return the folders in which the loader's cache has the driver's libraries."""
    try:
        # Blocks the plugin's event loop for some milliseconds; the timeout bounds a disk that hangs.
        done = subprocess.run(
            ["/sbin/ldconfig", "-p"], capture_output=True, text=True, errors="replace", timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return []
    lines = (line.strip() for line in done.stdout.splitlines())
    paths = (line.rpartition(" => ")[2] for line in lines if line.startswith(("libcuda.so.1 ", f"{NVML} ")))
    return [os.path.dirname(path) for path in paths if "x86_64" in path or "64" in path or "lib32" not in path]
