"""A machine with NVIDIA's driver below a folder: /proc, device nodes, libraries, and an NVML that a test controls."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import weakref
from dataclasses import dataclass
from pathlib import Path

import pytest

VERSION = "580.159.04"
H200 = "NVIDIA H200"
_PAGE = """\
Model: \t\t {product}
IRQ:   \t\t 37
GPU UUID: \t {uuid}
Video BIOS: \t 96.00.a5.00.03
Bus Type: \t PCIe
DMA Size: \t 52 bits
Bus Location: \t {bus}
Device Minor: \t {minor}
GPU Excluded:\t No
"""


@dataclass
class FakeGpu:
    """One GPU with the values that NVML returns. `action` below 0: this driver has no recovery action."""

    uuid: str
    minor: int
    product: str = H200
    alive: int = 1
    mig: int = 0
    utilization: int = 40
    used: int = 2 << 30
    total: int = 140 << 30
    milliwatts: int = 350_000
    celsius: int = 51
    action: int = 0

    @property
    def bus(self) -> str:
        """Return its PCI address."""
        return f"0000:{self.minor + 5:02x}:00.0"


class FakeDriver:
    """The driver's files below `root`."""

    def __init__(self, root: Path, *products: str, nvml: Path | None = None) -> None:
        self.root = root
        self.state = root / "nvml"
        self.state.mkdir(parents=True)
        self._write(
            "proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}\n"
        )
        self.gpus = [FakeGpu(f"GPU-{minor:08x}", minor, product) for minor, product in enumerate(products)]
        for gpu in self.gpus:
            self.add(gpu)
        for node in ("nvidiactl", "nvidia-uvm"):
            self._node(node)
        self._kernel_log()
        self._libraries()
        if nvml is not None:
            self.load_nvml(nvml)

    def add(self, gpu: FakeGpu) -> None:
        """Plug a GPU in."""
        page = _PAGE.format(product=gpu.product, uuid=gpu.uuid, bus=gpu.bus, minor=gpu.minor)
        self._write(f"proc/driver/nvidia/gpus/{gpu.bus}/information", page)
        self._node(f"nvidia{gpu.minor}")
        self.say(gpu)

    def remove(self, gpu: FakeGpu) -> None:
        """Remove a GPU, as one that falls off the bus."""
        shutil.rmtree(self.root / f"proc/driver/nvidia/gpus/{gpu.bus}")

    def say(self, gpu: FakeGpu) -> None:
        """Set the values that NVML returns for the GPU."""
        words = (gpu.alive, gpu.mig, gpu.utilization, gpu.used, gpu.total, gpu.milliwatts, gpu.celsius, gpu.action)
        fresh = self.state / f".{gpu.uuid}"
        fresh.write_text(" ".join(map(str, words)))
        fresh.replace(self.state / gpu.uuid)

    def xid(self, gpu: FakeGpu, number: int) -> None:
        """Report an XID error, as the driver prints it."""
        slot = gpu.bus.removesuffix(".0")
        self.kernel_says(f"NVRM: Xid (PCI:{slot}): {number}, pid='<unknown>', name=<unknown>, something happened")

    def kernel_says(self, text: str, priority: int = 4) -> None:
        """Add a record to the kernel's log."""
        self._records += 1
        os.write(self._log, f"{priority},{self._records},{self._records},-;{text}\n".encode())

    def load_nvml(self, source: Path) -> None:
        """Install the NVML library of the tests. Skips where no compiler is available."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("no C compiler on this machine: what NVML answers is NOT tested here")
        target = self.root / f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{VERSION}"
        state = f'-DSTATE="{self.state}"'
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", state, "-o", str(target), str(source)], check=True)

    def _kernel_log(self) -> None:
        """Make a pipe that keeps records apart, as the kernel log does; its own writer keeps it from ending."""
        path = self.root / "dev/kmsg"
        os.mkfifo(path)
        self._records = 0
        self._log = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        fcntl.fcntl(self._log, fcntl.F_SETFL, os.O_NONBLOCK | os.O_DIRECT)
        weakref.finalize(self, os.close, self._log)

    def _libraries(self) -> None:
        folder = self.root / "usr/lib/x86_64-linux-gnu"
        folder.mkdir(parents=True)
        for stem in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler", "libnvidia-encode", "libnvidia-gpucomp"):
            self._write(f"usr/lib/x86_64-linux-gnu/{stem}.so.{VERSION}", "not a library\n")
            if stem != "libnvidia-gpucomp":
                (folder / f"{stem}.so.1").symlink_to(f"{stem}.so.{VERSION}")
        self._write("usr/bin/nvidia-smi", "#!/bin/sh\n")
        os.chmod(self.root / "usr/bin/nvidia-smi", 0o755)

    def _node(self, name: str) -> None:
        """Make a device node: a link to /dev/null, since only root may make nodes."""
        path = self.root / "dev" / name
        path.parent.mkdir(exist_ok=True)
        path.symlink_to("/dev/null")

    def _write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)


NVML = Path(__file__).parent / "fakenvml.c"
