"""Which cgroups the agent has put into which classes, and doing so.

What was put is remembered by the id of the container, or of the sandbox where that has a kernel of its own, so that a
change of ours is told from one that somebody else made. After a restart of the agent it is learnt again from looking.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.classes.discovery import ClassDiscovery
from tarmac.agent.classes.kernel import KernelClasses
from tarmac.api.kubernetes.core.pods.podclasses import BLOCKIO
from tarmac.base.log import log
from tarmac.decide.classes.blockio import NO_CLASS, BlockioParameters

_log = log("classes")


@dataclass(frozen=True, slots=True)
class Place:
    """A cgroup of a pod, by the id of what is in it."""

    pod: str
    id: str
    group: str


@dataclass(frozen=True, slots=True)
class _Placed:
    place: Place
    classes: Mapping[str, str] = field(default_factory=dict[str, str])
    blockio: BlockioParameters | None = None


class Placements:
    """Puts cgroups into classes of the agent's own types."""

    def __init__(self, discovery: ClassDiscovery, kernel: KernelClasses) -> None:
        self._discovery = discovery
        self._kernel = kernel
        self._placed: dict[str, _Placed] = {}

    def put(self, place: Place, asked: Mapping[str, str]) -> None:
        """Into these classes, and out of those it was in before. Raises CgroupError."""
        before = self._placed.get(place.id)
        gone = {kind: "" for kind in (before.classes if before else {}) if kind not in asked}
        for kind, name in {**gone, **asked}.items():
            if not name or not self._kernel.has(place.group, kind, name):
                self._kernel.put(place.group, kind, name)
        self.remember(place, asked)

    def remember(self, place: Place, asked: Mapping[str, str]) -> None:
        """It is in these classes."""
        if asked:
            blockio = self._discovery.definitions.get(asked.get(BLOCKIO, ""))
            self._placed[place.id] = _Placed(place, dict(asked), blockio)
        else:
            self._placed.pop(place.id, None)

    def rewrite(self, id: str) -> None:
        """The runtime changed limits of a container, and may have put back the throttles that it was made with."""
        placed = self._placed.get(id)
        if placed is None or placed.blockio is None:
            return
        try:
            self._kernel.allow(placed.place.group, placed.blockio)
        except CgroupError as error:  # the next look puts it right, or says so
            _log.debug("limits of block I/O are not written again", container=id, why=str(error))

    def wanted_otherwise(self, place: Place, kind: str, name: str) -> bool:
        """Whether the kernel has what was last put there, and it is we who want something else now."""
        placed = self._placed.get(place.id)
        if placed is None or kind not in placed.classes:
            return True
        if kind == BLOCKIO and placed.blockio is not None:
            return self._kernel.allows(place.group, placed.blockio)
        return placed.classes[kind] != name and self._kernel.has(place.group, kind, placed.classes[kind])

    def holds(self, place: Place, kind: str, name: str) -> bool:
        """Whether it was put into a class, and the kernel still has it there. The class need not exist any more."""
        placed = self._placed.get(place.id)
        if placed is None or placed.classes.get(kind) != name:
            return False
        if kind == BLOCKIO and placed.blockio is not None:
            return self._kernel.allows(place.group, placed.blockio)
        return self._kernel.has(place.group, kind, name)

    def classes(self, place: Place) -> Mapping[str, str]:
        """What it was last put into."""
        placed = self._placed.get(place.id)
        return placed.classes if placed else {}

    def clear_leftover(self, place: Place) -> None:
        """Take limits away that an agent before us left when it was killed: they are just those of one class."""
        if self._kernel.allows(place.group, NO_CLASS):
            return
        if any(self._kernel.allows(place.group, each) for each in self._discovery.definitions.values()):
            try:
                self._kernel.allow(place.group, NO_CLASS)
            except CgroupError as error:
                _log.info("limits of a class that is not asked for stay", container=place.id, why=str(error))

    def keep_only(self, pod: str, ids: Set[str]) -> None:
        """The others of this pod are gone."""
        for gone in [each.place.id for each in self._placed.values() if each.place.pod == pod]:
            if gone not in ids:
                del self._placed[gone]
