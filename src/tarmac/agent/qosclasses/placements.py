"""Puts cgroups into classes, and records the result.

Placements are recorded by the id of the container, or of a sandbox with its own kernel, to distinguish the agent's own
changes from those of other programs. After a restart of the agent they are learned again by inspection.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.qosclasses.classdiscovery import ClassDiscovery
from tarmac.agent.qosclasses.kernel import KernelClasses
from tarmac.api.kubernetes.core.pods.podclasses import BLOCKIO
from tarmac.base.log import log
from tarmac.decide.qosclasses.blockio import NO_CLASS, BlockioParameters

_log = log("classes")


@dataclass(frozen=True, slots=True)
class ClassGroup:
    """A cgroup of a pod, by the id of the container or sandbox in it."""

    pod: str
    id: str
    group: str


@dataclass(frozen=True, slots=True)
class _Placed:
    place: ClassGroup
    classes: Mapping[str, str] = field(default_factory=dict[str, str])
    blockio: BlockioParameters | None = None


class Placements:
    """Puts cgroups into classes of the agent's own types."""

    def __init__(self, discovery: ClassDiscovery, kernel: KernelClasses) -> None:
        self._discovery = discovery
        self._kernel = kernel
        self._placed: dict[str, _Placed] = {}

    def put(self, place: ClassGroup, asked: Mapping[str, str]) -> None:
        """Put a cgroup into these classes, and remove it from its previous ones. Raises CgroupError."""
        before = self._placed.get(place.id)
        gone = {kind: "" for kind in (before.classes if before else {}) if kind not in asked}
        for kind, name in {**gone, **asked}.items():
            if not name or not self._kernel.has(place.group, kind, name):
                self._kernel.put(place.group, kind, name)
        # Only after all of them: a failed put keeps the former record, and the next inspection tries again.
        self.remember(place, asked)

    def remember(self, place: ClassGroup, asked: Mapping[str, str]) -> None:
        """Record that a cgroup is in these classes."""
        if asked:
            blockio = self._discovery.definitions.get(asked.get(BLOCKIO, ""))
            self._placed[place.id] = _Placed(place, dict(asked), blockio)
        else:
            self._placed.pop(place.id, None)

    def rewrite(self, id: str) -> None:
        """Restore disk limits after the runtime changed a container: it may have reset them to the original ones."""
        placed = self._placed.get(id)
        if placed is None or placed.blockio is None:
            return
        try:
            self._kernel.allow(placed.place.group, placed.blockio)
        except CgroupError as error:  # the next inspection corrects or reports it
            _log.debug("block I/O limits cannot be restored", container=id, why=str(error))

    def wanted_otherwise(self, place: ClassGroup, kind: str, name: str) -> bool:
        """Return True if the kernel still has the last placement, so that the difference is the agent's own change."""
        placed = self._placed.get(place.id)
        if placed is None or kind not in placed.classes:
            return True
        if kind == BLOCKIO and placed.blockio is not None:
            return self._kernel.allows(place.group, placed.blockio)
        return placed.classes[kind] != name and self._kernel.has(place.group, kind, placed.classes[kind])

    def holds(self, place: ClassGroup, kind: str, name: str) -> bool:
        """Return True if the kernel still has the recorded class, which need not be offered any more."""
        placed = self._placed.get(place.id)
        if placed is None or placed.classes.get(kind) != name:
            return False
        if kind == BLOCKIO and placed.blockio is not None:
            return self._kernel.allows(place.group, placed.blockio)
        return self._kernel.has(place.group, kind, name)

    def classes(self, place: ClassGroup) -> Mapping[str, str]:
        """Return the classes of the last placement."""
        placed = self._placed.get(place.id)
        return placed.classes if placed else {}

    def clear_leftover(self, place: ClassGroup) -> None:
        """Remove limits that an earlier, killed agent left: they are exactly those of one class."""
        if self._kernel.allows(place.group, NO_CLASS):
            return
        if any(self._kernel.allows(place.group, each) for each in self._discovery.definitions.values()):
            try:
                self._kernel.allow(place.group, NO_CLASS)
            except CgroupError as error:
                _log.info("limits of a class without a request cannot be removed", container=place.id, why=str(error))

    def keep_only(self, pod: str, ids: Set[str]) -> None:
        """Drop the records of this pod's removed containers."""
        for gone in [each.place.id for each in self._placed.values() if each.place.pod == pod]:
            if gone not in ids:
                del self._placed[gone]
