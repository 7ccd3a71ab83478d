"""The built-in RuntimeClasses, and the handlers that isolate a Pod from the host's kernel.

Only handlers known to have a kernel of their own count as isolating; an unlisted handler may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tarmac.api.checks import mapping, objects
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Format, Quantity

BUCKET: Final = "node.k8s.io/runtimeclasses"
SANDBOX_CLASS: Final = "gvisor"
"""The class of a Pod that names none."""
HOST_CLASS: Final = "runc"
"""The handler that nodes use for a Pod without any class."""
MACHINE_CLASS: Final = "vm"
NVIDIA_HANDLER: Final = "gvisor-nvidia"
"""A sandbox that passes NVIDIA's devices through: a part of the calls of its pods reaches the host's driver."""
PROXIED_PREFIX: Final = "datumcloud.com/nvidia-"
"""Prefix of the resources that `tarmac device-plugin nvidia` offers: devices that a sandbox can use by proxy."""
CLASSES: Final = (SANDBOX_CLASS, HOST_CLASS, MACHINE_CLASS, NVIDIA_HANDLER)
"""Created at start; each is named after its handler."""
OVERHEADS: Final = {MACHINE_CLASS: {"memory": "192Mi"}}
"""Overhead of a Pod of a class beside its containers: QEMU itself, in the machine's cgroup."""
MACHINE_SHARE: Final = 128
"""QEMU and the kernel need one byte for so many bytes of guest memory: page tables and page bitmaps."""
_MIB: Final = 1 << 20
OWN_KERNEL_HANDLERS: Final = frozenset({SANDBOX_CLASS, MACHINE_CLASS, NVIDIA_HANDLER})

SIMULATED_RUNTIME: Final = "sim://"
"""Prefix of the runtime version of a simulated node, which runs no real containers."""


def proxied_in(*amounts: Iterable[str]) -> list[str]:
    """Return the resources among these that sandboxes can use by proxy, sorted."""
    return sorted({name for names in amounts for name in names if name.startswith(PROXIED_PREFIX)})


def proxied_devices(spec: JsonObject) -> list[str]:
    """Return the resources that the containers of a Pod request and sandboxes can use by proxy, sorted."""
    containers = (*objects(spec, "initContainers"), *objects(spec, "containers"))
    return proxied_in(*(mapping(each, "resources", key) for each in containers for key in ("limits", "requests")))


def overhead_of(runtime_class: JsonObject | None, memory: Quantity | None) -> dict[str, str]:
    """Return the overhead of a Pod of a class: the fixed part and, for a machine, a part proportional to its memory.

    A class without a fixed part has no overhead.
    """
    fixed: dict[str, str] = dict(mapping(runtime_class, "overhead").get("podFixed") or {})
    if runtime_class is None or runtime_class.get("handler") != MACHINE_CLASS or "memory" not in fixed:
        return fixed
    share = -(-(memory.value() if memory is not None else 0) // (MACHINE_SHARE * _MIB)) * _MIB
    return {**fixed, "memory": str(Quantity.parse(fixed["memory"]) + Quantity.of(share, Format.BINARY_SI))}


def is_simulated(node: JsonObject) -> bool:
    """Return True if a Node is simulated."""
    version: str = mapping(node, "status", "nodeInfo").get("containerRuntimeVersion", "")
    return version.startswith(SIMULATED_RUNTIME)
