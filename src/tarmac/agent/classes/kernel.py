"""Putting the processes of a cgroup into a class, and finding out whether they are in it.

It takes a cgroup, whoever made it: a container's, a sandbox's, or that of a virtual machine. Two types are known to the
kernel: `blockio` is what the group's files allow of the disks, `rdt` is the resctrl group that its processes are in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tarmac.agent.cgroups.hierarchy import CgroupError, Hierarchy
from tarmac.agent.classes.resctrl import Resctrl
from tarmac.api.kubernetes.core.pods.podclasses import BLOCKIO, RDT
from tarmac.decide.classes.blockio import NO_CLASS, BlockioParameters

Definitions = Mapping[str, BlockioParameters]


class KernelClasses:
    """Of one machine. `definitions` are the classes of block I/O as of now."""

    def __init__(
        self, hierarchy: Hierarchy, resctrl: Callable[[], Resctrl | None], definitions: Callable[[], Definitions]
    ) -> None:
        self._hierarchy = hierarchy
        self._block_io = hierarchy.block_io()
        self._resctrl = resctrl
        self._definitions = definitions

    def definition(self, kind: str, name: str) -> BlockioParameters | None:
        """What a class of block I/O comes to."""
        return self._definitions().get(name) if kind == BLOCKIO else None

    def holder(self, group: str, inner: str) -> str:
        """Which of two cgroups, one in the other, the processes of a sandbox are in; the inner one if it is empty too.

        gVisor stays in the pod's own where that can hold processes, which is so on version 1.
        """
        outside = not self._hierarchy.occupied(inner) and self._hierarchy.occupied(group)
        return group if outside else inner

    def has(self, group: str, kind: str, name: str) -> bool:
        """Whether a cgroup, with every process in it, is in a class."""
        if kind == BLOCKIO:
            wanted = self._definitions().get(name)
            return wanted is not None and self.allows(group, wanted)
        resctrl = self._resctrl() if kind == RDT else None
        return resctrl is not None and resctrl.holds(name, self._hierarchy.inhabitants(group))

    def allows(self, group: str, parameters: BlockioParameters) -> bool:
        """Whether a cgroup is allowed just this of the disks."""
        return self._block_io is not None and self._block_io.has(group, parameters)

    def put(self, group: str, kind: str, name: str) -> None:
        """Put a cgroup into a class; the empty name takes it out of all of them. Raises CgroupError."""
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
        """Let a cgroup have just this of the disks. Raises CgroupError."""
        if self._block_io is None:
            raise CgroupError("the kernel has no controller of block I/O here")
        self._block_io.put(group, parameters)
