"""The RuntimeClasses every server has, and which handlers keep a Pod away from the host's kernel.

Only what is known to have a kernel of its own counts as such: a handler that is not listed here may be anything.
"""

from __future__ import annotations

from typing import Final

from tarmac.api.kubernetes.checks import mapping
from tarmac.api.schema import JsonObject

BUCKET: Final = "node.k8s.io/runtimeclasses"
SANDBOX_CLASS: Final = "gvisor"
"""What a Pod gets that names no class."""
HOST_CLASS: Final = "runc"
"""What nodes run a Pod with that has no class at all."""
MACHINE_CLASS: Final = "vm"
NVIDIA_HANDLER: Final = "gvisor-nvidia"
"""A sandbox that passes NVIDIA's devices on. No class is made for it: calls of pods reach the host's driver."""
CLASSES: Final = (SANDBOX_CLASS, HOST_CLASS, MACHINE_CLASS)
"""Made at start; each is named after its handler."""
OVERHEADS: Final = {MACHINE_CLASS: {"memory": "192Mi"}}
"""What a Pod of a class takes beside what its containers do: QEMU itself, in the machine's cgroup."""
OWN_KERNEL_HANDLERS: Final = frozenset({SANDBOX_CLASS, MACHINE_CLASS})

SIMULATED_RUNTIME: Final = "sim://"
"""What the version of a simulated node's runtime begins with: nothing real runs there."""


def is_simulated(node: JsonObject) -> bool:
    """Whether a Node is only played."""
    version: str = mapping(node, "status", "nodeInfo").get("containerRuntimeVersion", "")
    return version.startswith(SIMULATED_RUNTIME)
