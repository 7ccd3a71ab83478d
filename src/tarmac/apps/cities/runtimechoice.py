"""`--runtime auto`: real containers where possible, else a simulation; a line gives the reason."""

from __future__ import annotations

import os
import shutil
from typing import Literal, NamedTuple

from tarmac.runtimes.parts import NodeParts, PartMissing, find_parts

_TOOLS = {"nft": "nftables", "nsenter": "util-linux", "mkfs.ext4": "e2fsprogs"}


class Impossible(Exception):
    """The requested runtime is not available here; the message names reason and fix."""


class RuntimeChoice(NamedTuple):
    """The chosen runtime and the reason. The parts are those of `containerd`."""

    runtime: Literal["containerd", "sim"]
    why: str
    parts: NodeParts | None = None


def choose(asked: Literal["auto", "containerd", "sim"]) -> RuntimeChoice:
    """Choose the runtime. Raises Impossible if containerd was requested and is not available."""
    if asked == "sim":
        return RuntimeChoice("sim", "set by --runtime")
    try:
        parts = _usable_parts()
    except Impossible as reason:
        if asked == "containerd":
            raise
        return RuntimeChoice("sim", f"instances are simulated: {reason}")
    without = f"there is no gVisor ({parts.no_gvisor}), so only pods with the RuntimeClass runc can run"
    return RuntimeChoice("containerd", f"real containers; {'sandboxes by gVisor' if parts.runsc else without}", parts)


def _usable_parts() -> NodeParts:
    if os.geteuid() != 0:
        raise Impossible("namespaces, mounts and cgroups need root (run it as root for real containers)")
    if missing := {package for tool, package in _TOOLS.items() if shutil.which(tool) is None}:
        raise Impossible(f"these packages are missing: {', '.join(sorted(missing))} (apt-get install them)")
    try:
        return find_parts()
    except PartMissing as missing:
        raise Impossible(str(missing)) from missing
