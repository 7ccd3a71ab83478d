"""Puts the processes of a cgroup into a class, and checks if they are in it.

It accepts any cgroup: a container's, a sandbox's, or that of a virtual machine. The kernel has two types: `blockio` is
the disk limits in the group's files, `rdt` is the resctrl group of its processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tarmac.agent.cgroups.hierarchy import CgroupError, Hierarchy
from tarmac.agent.qosclasses.resctrl import Resctrl
from tarmac.api.kubernetes.core.pods.podclasses import BLOCKIO, RDT
from tarmac.decide.qosclasses.blockio import NO_CLASS, BlockioParameters

Definitions = Mapping[str, BlockioParameters]


class KernelClasses:
    """The kernel's classes of one machine. `definitions` are the current classes of block I/O."""

    def __init__(
        self, hierarchy: Hierarchy, resctrl: Callable[[], Resctrl | None], definitions: Callable[[], Definitions]
    ) -> None:
        self._hierarchy = hierarchy
        self._block_io = hierarchy.block_io()
        self._resctrl = resctrl
        self._definitions = definitions

    def definition(self, kind: str, name: str) -> BlockioParameters | None:
        """Return the parameters of a class of block I/O."""
        return self._definitions().get(name) if kind == BLOCKIO else None

    def holder(self, group: str, inner: str) -> str:
        """Return the one of two nested cgroups that holds a sandbox's processes; the inner one if both are empty.

        gVisor stays in the pod's own cgroup where that can hold processes, which is the case with cgroup v1.
        """
        outside = not self._hierarchy.occupied(inner) and self._hierarchy.occupied(group)
        return group if outside else inner

    def has(self, group: str, kind: str, name: str) -> bool:
        """Return True if a cgroup, with every process in it, is in a class."""
        if kind == BLOCKIO:
            wanted = self._definitions().get(name)
            return wanted is not None and self.allows(group, wanted)
        resctrl = self._resctrl() if kind == RDT else None
        return resctrl is not None and resctrl.holds(name, self._hierarchy.inhabitants(group))

    def allows(self, group: str, parameters: BlockioParameters) -> bool:
        """Return True if a cgroup has exactly these disk limits."""
        return self._block_io is not None and self._block_io.has(group, parameters)

    def put(self, group: str, kind: str, name: str) -> None:
        """Put a cgroup into a class; the empty name removes it from all of them. Raises CgroupError."""
        if kind == BLOCKIO:
            wanted = self._definitions().get(name) if name else NO_CLASS
            if wanted is None:
                raise CgroupError(f"there is no class {kind}/{name}")
            self.allow(group, wanted)
        elif kind == RDT and (resctrl := self._resctrl()) is not None:
            resctrl.move(name, lambda: self._hierarchy.inhabitants(group))
        else:
            raise CgroupError(f"the kernel knows no classes of type {kind}")

    def allow(self, group: str, parameters: BlockioParameters) -> None:
        """Set exactly these disk limits on a cgroup. Raises CgroupError."""
        if self._block_io is None:
            raise CgroupError("the kernel has no controller of block I/O here")
        self._block_io.put(group, parameters)
