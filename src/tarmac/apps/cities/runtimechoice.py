"""`--runtime auto`: real containers where that is possible, else a simulation, and in both cases a line says why."""

from __future__ import annotations

import os
import shutil
from typing import Literal, NamedTuple

from tarmac.runtimes.parts import NodeParts, PartMissing, find_parts

_TOOLS = {"nft": "nftables", "nsenter": "util-linux", "mkfs.ext4": "e2fsprogs"}


class Impossible(Exception):
    """What was asked for cannot be had here; the message says why and what would help."""


class Choice(NamedTuple):
    """What runs instances, and why. The parts are those of `containerd`."""

    runtime: Literal["containerd", "sim"]
    why: str
    parts: NodeParts | None = None


def choose(asked: Literal["auto", "containerd", "sim"]) -> Choice:
    """Raises Impossible when containerd is insisted on and cannot be had."""
    if asked == "sim":
        return Choice("sim", "as --runtime says")
    try:
        parts = _usable_parts()
    except Impossible as reason:
        if asked == "containerd":
            raise
        return Choice("sim", f"instances are simulated, since {reason}")
    without = f"there is no gVisor ({parts.no_gvisor}), so only what asks for the RuntimeClass runc can run"
    return Choice("containerd", f"real containers; {'sandboxes by gVisor' if parts.runsc else without}", parts)


def _usable_parts() -> NodeParts:
    if os.geteuid() != 0:
        raise Impossible("namespaces, mounts and cgroups need root (run it as root for real containers)")
    if missing := {package for tool, package in _TOOLS.items() if shutil.which(tool) is None}:
        raise Impossible(f"these packages are missing: {', '.join(sorted(missing))} (apt-get install them)")
    try:
        return find_parts()
    except PartMissing as missing:
        raise Impossible(str(missing)) from missing
