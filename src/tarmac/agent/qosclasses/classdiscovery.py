"""Discovers the classes that this node offers, and the owner that puts containers into them.

First hit, for each type: a runtime that announces it; for `blockio`, the agent's own file, if containerd or cgroup v2
can set a limit before the first process; the runtime's own file; for `rdt`, the kernel's groups. Discovery runs with
every check of the runtime. Until the runtime has answered once the offer is unknown, which differs from an empty offer:
no pod is rejected for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import yaml

from tarmac.agent.cgroups.hierarchy import BlockIo
from tarmac.agent.config.kubelet import KubeletClassResources
from tarmac.agent.qosclasses.blockiofile import BadClassFile, BlockioFile
from tarmac.agent.qosclasses.resctrl import Resctrl, mounted_resctrl
from tarmac.agent.qosclasses.runtimefiles import RuntimeFiles, runtime_files
from tarmac.api.kubernetes.core.pods.podclasses import ANNOTATED_TYPES, BLOCKIO, RDT
from tarmac.base import names
from tarmac.base.log import log
from tarmac.decide.qosclasses.blockio import BlockioParameters, Disk
from tarmac.decide.qosclasses.offers import Catalogue, FoundType, Level, catalogue
from tarmac.decide.qosclasses.resctrl import classes_of_partitions
from tarmac.runtimes.interface import RuntimeClassType, RuntimeStatus

CONTAINERD: Final = "containerd"
RecordNodeEvent = Callable[[str, str], None]
"""Reason and message of a warning about the node."""

_log = log("classes")


class ClassDiscovery:
    """The node's current offer. `files` finds the class files of the runtime that answers."""

    def __init__(
        self,
        settings: KubeletClassResources,
        block_io: BlockIo | None,
        unified: bool,
        files: Callable[[RuntimeStatus], RuntimeFiles],
        resctrl: Callable[[], Resctrl | None] = mounted_resctrl,
        record_event: RecordNodeEvent = lambda _reason, _message: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Raises BadClassFile if the agent's own file cannot be used.

        `changed` is called when the types offered for whole pods change: then requests of pods have a different
        meaning.
        """
        self.catalogue: Catalogue | None = None
        self.definitions: Mapping[str, BlockioParameters] = {}
        """Classes of block I/O, of any owner."""
        self.once_offered: set[tuple[str, str]] = set()
        """Types and classes that were offered at some time: one that is missing now has vanished."""
        self._record_event = record_event
        self._changed = changed
        self.containerd = False
        self.native = False
        """True if the runtime supports classes in CRI."""
        self.resctrl = resctrl
        self._settings = settings
        self._block_io = block_io
        self._unified = unified
        self._files = files
        stated = settings.types.get(BLOCKIO)
        self._own = BlockioFile(Path(stated.config_file)) if stated and stated.config_file else None
        self._theirs: BlockioFile | None = None
        self._why: dict[str, str] = {}
        self._reported: dict[str, str] = {}
        if self._own is not None:
            # At the start an invalid file is an error of the configuration; later its last valid content stays in
            # force.
            self._own.refresh()

    @property
    def lenient(self) -> bool:
        """True if pods may start without unavailable classes."""
        return self._settings.unavailable == "ignore"

    def refresh(self, status: RuntimeStatus | None) -> None:
        """Discover again. While the runtime does not answer, its last status counts."""
        if status is None:
            return
        self.containerd = status.name == CONTAINERD
        self.native = status.classes is not None
        files = self._files(status)
        reasons: dict[str, str] = {}
        found = [*self._announced(status), *self._of_blockio(files, reasons), *self._of_rdt(files, reasons)]
        wanted = {
            name: None if each.classes is None else {one: of.capacity for one, of in each.classes.items()}
            for name, each in self._settings.types.items()
        }
        before, self.catalogue = self.catalogue, catalogue(found, wanted)
        if before is None or before.pod_types != self.catalogue.pod_types:
            # Cached allotments have requests for whole pods in their former meaning.
            self._changed()
        self.once_offered |= {(kind, name) for kind, each in self.catalogue.types.items() for name in each.classes}
        self._log_reasons(self.catalogue, reasons)
        conflicts = {kind: f"{kind} is announced for pods and for containers" for kind in self.catalogue.conflicts}
        for kind, what in conflicts.items():
            self._record_once(kind, "ClassConflict", f"{what}, so it is offered for neither")
        self._reported = {kind: what for kind, what in self._reported.items() if kind in conflicts or kind == BLOCKIO}

    # --- owners of types --------------------------------------------------------------------------------------------

    def _announced(self, status: RuntimeStatus) -> Iterator[FoundType]:
        if status.classes is not None:
            yield from _found(status.classes.pod, "pod")
            yield from _found(status.classes.container, "container")

    def _of_blockio(self, files: RuntimeFiles, reasons: dict[str, str]) -> Iterator[FoundType]:
        if self._block_io is None:
            reasons[BLOCKIO] = "the kernel has no controller of block I/O among its control groups"
        elif self._own is not None:
            yield from self._own_blockio(self._own, reasons)
        elif files.blockio:
            yield from self._runtimes_blockio(files.blockio, reasons)
        else:
            reasons[BLOCKIO] = "neither classResources.types.blockio.configFile nor the runtime names a file of classes"

    def _own_blockio(self, file: BlockioFile, reasons: dict[str, str]) -> Iterator[FoundType]:
        if not (self.containerd or self._unified):
            reasons[BLOCKIO] = "limits before the first process need containerd, or version 2 of control groups"
            return
        try:
            file.refresh()
            self._reported.pop(BLOCKIO, None)
        except BadClassFile as error:
            self._record_once(BLOCKIO, "ClassFileInvalid", f"{error}; the classes read before stay as they are")
        self.definitions = self._expressible(file.classes())
        yield FoundType(BLOCKIO, "agent", dict.fromkeys(self.definitions))

    def _expressible(self, classes: dict[str, BlockioParameters]) -> dict[str, BlockioParameters]:
        """Return the classes that the runtime can express.

        Runtimes other than containerd get a limit through CRI, which has room for the rates of one disk.
        """
        if self.containerd:
            return classes
        return {name: each for name, each in classes.items() if not each.weights and len(_limited(each)) <= 1}

    def _runtimes_blockio(self, path: str, reasons: dict[str, str]) -> Iterator[FoundType]:
        if self._theirs is None or str(self._theirs.path) != path:
            self._theirs = BlockioFile(Path(path), lenient=True)
        try:
            self._theirs.refresh()
        except BadClassFile as error:
            reasons[BLOCKIO] = f"the runtime's file cannot be used: {error}"
        self.definitions = self._theirs.classes()
        yield FoundType(BLOCKIO, "runtime", dict.fromkeys(self.definitions), immutable=True)

    def _of_rdt(self, files: RuntimeFiles, reasons: dict[str, str]) -> Iterator[FoundType]:
        resctrl = self.resctrl()
        if resctrl is None:
            reasons[RDT] = "resctrl is not mounted: the kernel or the processor has none, or nobody mounted it"
            return
        groups = [each for each in resctrl.groups() if not names.label_value(each)]
        if not files.rdt:
            yield FoundType(RDT, "agent", dict.fromkeys(groups))
            return
        try:
            stated = classes_of_partitions(yaml.safe_load(Path(files.rdt).read_bytes()))
        except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
            reasons[RDT] = f"the runtime's file {files.rdt} cannot be read: {error}"
            return
        yield FoundType(RDT, "runtime", dict.fromkeys(each for each in stated if each in groups), immutable=True)

    # --- reporting --------------------------------------------------------------------------------------------------

    def _log_reasons(self, found: Catalogue, reasons: Mapping[str, str]) -> None:
        """Log each well-known or configured type that is not offered; again when the cause changes."""
        missing = {*ANNOTATED_TYPES, *self._settings.types} - found.types.keys() - found.conflicts
        why = {kind: reasons.get(kind, "nobody here has a class of this type that may be offered") for kind in missing}
        for kind in sorted(kind for kind in why if self._why.get(kind) != why[kind]):
            _log.info("classes of a type are not offered", type=kind, why=why[kind])
        self._why = why

    def _record_once(self, kind: str, reason: str, message: str) -> None:
        if self._reported.get(kind) != message:
            _log.warning("class configuration is invalid", type=kind, why=message)
            self._record_event(reason, message)
        self._reported[kind] = message


def files_behind(path: str) -> Callable[[RuntimeStatus], RuntimeFiles]:
    """Return the function that finds the class files of the runtime that listens on a socket."""
    return lambda status: runtime_files(status.name, status.version, path)


def _found(types: tuple[RuntimeClassType, ...], level: Level) -> Iterator[FoundType]:
    for each in types:
        if names.label_key(each.name) or each.name == "pod-qos":
            continue
        classes = {name: most or None for name, most in each.classes.items() if name and not names.label_value(name)}
        yield FoundType(each.name, "native", classes, level, each.immutable)


def _limited(parameters: BlockioParameters) -> set[Disk]:
    return {disk for rates in parameters.throttles.values() for disk in rates}
