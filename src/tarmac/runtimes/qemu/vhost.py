"""vhost-net: the host's kernel forwards frames between guests and taps, bypassing QEMU.

Used where the kernel has it and guests run with KVM. An emulated guest gains nothing: emulation dominates its cost.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

from tarmac.runtimes.qemu.machine import Accelerator

DEVICE: Final = Path("/dev/vhost-net")


def open_vhost(accelerator: Accelerator, device: Path = DEVICE) -> io.FileIO | None:
    """Open vhost-net for one interface; None where it is unavailable or not worth it."""
    if accelerator != "kvm":
        return None
    try:
        return io.FileIO(device, "r+")
    except OSError:
        return None


def why_not(accelerator: Accelerator, device: Path = DEVICE) -> str:
    """Return the reason why KVM guests do not use vhost-net; empty where they do, and without KVM."""
    if accelerator != "kvm":
        return ""
    try:
        io.FileIO(device, "r+").close()
    except OSError as error:
        return f"{device}: {error.strerror}"
    return ""
