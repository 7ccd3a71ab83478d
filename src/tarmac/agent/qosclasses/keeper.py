"""Keeps pods in their classes.

A container is put into its classes before its first process runs: classes of the agent by changing the runtime's OCI
specification right before every start, also for a container that an earlier agent created and did not start; classes of
the runtime by an annotation that only the agent sends. A sandbox with its own kernel has all processes in one cgroup,
which is put into the class before the first container starts.

Whenever a pod is inspected, the kernel (or a runtime with support for classes) is asked for the classes in effect,
which the pod's status shows. Deviations in the agent's own types are corrected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.model.allotment import PodAllotment
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.podclasses import NO_CLASSES, Classes, ClassesInEffect, ClassRequest, RunningContainer
from tarmac.agent.model.runtimestate import PodRuntimeState
from tarmac.agent.qosclasses.classdiscovery import ClassDiscovery
from tarmac.agent.qosclasses.classevents import ClassEvents
from tarmac.agent.qosclasses.kernel import KernelClasses
from tarmac.agent.qosclasses.placements import ClassGroup, Placements
from tarmac.api.kubernetes.core.pods.podclasses import (
    ANNOTATED_TYPES,
    BLOCKIO,
    POD_QOS,
    RDT,
    container_annotation,
    default_annotation,
)
from tarmac.api.schema import JsonObject
from tarmac.decide.qosclasses import refusals
from tarmac.decide.qosclasses.blockio import BlockioParameters, oci
from tarmac.decide.qosclasses.iofiles import io_max_line, unified_weight
from tarmac.decide.qosclasses.offers import NOTHING_FOUND, Catalogue, Owner
from tarmac.runtimes.interface import (
    Resources,
    Runtime,
    RuntimeContainer,
    RuntimeFault,
    RuntimeRefused,
    RuntimeSandbox,
    RuntimeUnreachable,
)

_TO_RUNTIME: Final = {kind: f"io.kubernetes.cri.{kind}-class" for kind in ANNOTATED_TYPES}
_BETA: Final = ".resources.beta.kubernetes.io/"
_OF_CONTAINER: Final = "container."


class ClassKeeper:
    """Implements `PodClasses`. `group` returns a pod's cgroup; `own_kernel` takes the name of a handler."""

    def __init__(
        self,
        runtime: Runtime,
        discovery: ClassDiscovery,
        kernel: KernelClasses,
        events: ClassEvents,
        node: str,
        group: Callable[[PodAllotment], str],
        own_kernel: Callable[[str], bool],
    ) -> None:
        self._runtime = runtime
        self._discovery = discovery
        self._kernel = kernel
        self._events = events
        self._node = node
        self._group = group
        self._own_kernel = own_kernel
        self._placements = Placements(discovery, kernel)
        self._known: dict[str, set[str]] = {}  # pod -> ids of containers that were inspected
        self.rewrite = self._placements.rewrite

    # --- before a container starts ----------------------------------------------------------------------------------

    def handed_on(self, pod: AgentPod) -> Mapping[str, str]:
        stripped = withheld(pod.annotations)
        for key, use in stripped.items():
            self._events.ignored(pod, key, use)
        return {key: value for key, value in pod.annotations.items() if key not in stripped}

    def of_sandbox(self, allotment: PodAllotment) -> Classes:
        """Return the classes of a sandbox; none for a runtime without support for classes."""
        if not self._discovery.native:
            return {}
        return {**self._owned(allotment.classes, "native"), POD_QOS: allotment.quality}

    def request(self, allotment: PodAllotment, name: str) -> ClassRequest:
        requested = self._available(allotment.containers[name].classes)
        own = self._owned(requested, "agent").get(BLOCKIO)
        described = unified(self._discovery.definitions[own]) if own and not self._discovery.containerd else {}
        return ClassRequest(to_runtime(self._owned(requested, "runtime")), self._owned(requested, "native"), described)

    async def prepare(self, allotment: PodAllotment, container: RunningContainer, *, fresh: bool) -> None:
        """Safe against a crash at any point: it is repeated before the container starts, also by a later agent."""
        requested = self._owned(self._available(allotment.containers[container.name].classes), "agent")
        place = self._place(allotment, container.id, container.sandbox)
        if place.id == container.sandbox.id:
            try:
                self._placements.put(place, self._of_all(allotment))
            except CgroupError as error:
                raise RuntimeRefused(f"the sandbox cannot be put into its class: {error}") from error
        elif self._discovery.containerd and (requested or not fresh):
            if changes := self._specification(requested):
                await self._runtime.amend_spec(container.id, changes)
            # After the amendment: a failed one leaves the container without its class, which the next call sets.
            self._placements.remember(place, requested)

    def _specification(self, requested: Classes) -> JsonObject:
        """Return the changes of the OCI specification.

        Classes without a request are removed: an earlier agent may have set them.
        """
        linux: JsonObject = {}
        if self._found.owner(BLOCKIO) == "agent":
            name = requested.get(BLOCKIO)
            linux["resources"] = {"blockIO": oci(self._discovery.definitions[name]) if name else None}
        if self._found.owner(RDT) == "agent":
            linux["intelRdt"] = {"closID": requested[RDT]} if RDT in requested else None
        return {"linux": linux} if linux else {}

    # --- while it runs ----------------------------------------------------------------------------------------------

    async def change(self, allotment: PodAllotment, container: RunningContainer, limits: Resources | None) -> None:
        """Change limits and classes.

        The runtime comes first: its update is atomic, so a failure leaves no partial change.
        """
        requested = allotment.containers[container.name].classes
        native = await self._native_changes(container.id, requested) if self._discovery.native else {}
        if limits is not None or native:
            await self._runtime.update_container(container.id, limits, native)
        place = self._place(allotment, container.id, container.sandbox)
        shared = place.id == container.id
        self._placements.put(
            place, self._offered(self._owned(requested, "agent")) if shared else self._of_all(allotment)
        )

    async def inspect(self, pod: AgentPod, allotment: PodAllotment, seen: PodRuntimeState) -> ClassesInEffect:
        if self._discovery.catalogue is None:
            return NO_CLASSES
        running = [each for each in seen.containers if each.state == "running"]
        sandbox = next((each for each in seen.sandboxes if each.ready), None)
        if sandbox is None:
            return NO_CLASSES
        # Before the early return: a pod may have had classes under an earlier agent and request none now.
        self._take_out(allotment, sandbox, running)
        if not allotment.classes and not any(each.classes for each in allotment.containers.values()):
            return NO_CLASSES
        self._placements.keep_only(pod.uid, {sandbox.id, *(each.id for each in running)})
        return ClassesInEffect(
            await self._of_pod(pod, allotment, sandbox),
            {each.name: await self._of_container(pod, allotment, each, sandbox) for each in running},
        )

    def forget(self, uid: str) -> None:
        self._placements.keep_only(uid, set())
        self._known.pop(uid, None)
        self._events.forget(uid)

    def _take_out(self, allotment: PodAllotment, sandbox: RuntimeSandbox, running: list[RuntimeContainer]) -> None:
        """Remove containers from classes that they do not request any more, also from those set by an earlier agent."""
        known = self._known.get(allotment.uid, set())
        for each in running:
            place = self._place(allotment, each.id, sandbox)
            requested, has = self._requested(allotment, each, place), self._placements.classes(place)
            if has.keys() - requested.keys():
                with suppress(CgroupError):
                    self._placements.put(place, {kind: name for kind, name in has.items() if kind in requested})
            if each.id not in known and BLOCKIO not in requested and self._found.owner(BLOCKIO) == "agent":
                self._placements.clear_leftover(place)
        # Replaced as a whole: ids of ended containers would be kept for the life of the pod.
        self._known[allotment.uid] = {each.id for each in running}

    async def _of_pod(self, pod: AgentPod, allotment: PodAllotment, sandbox: RuntimeSandbox) -> Classes:
        """Return the pod's classes in effect. Classes of whole pods exist only in runtimes with support for them."""
        requested = allotment.classes
        if not requested:
            return {}
        has = (await self._runtime.sandbox(sandbox.id)).classes
        changes = {kind: name for kind, name in requested.items() if has.get(kind) != name and self._mutable(kind)}
        if changes:
            with suppress(RuntimeFault):
                await self._runtime.update_sandbox(sandbox.id, changes)
                has = {**has, **changes}
        return {kind: self._report(pod, "", kind, name, has) for kind, name in requested.items()}

    async def _of_container(
        self, pod: AgentPod, allotment: PodAllotment, container: RuntimeContainer, sandbox: RuntimeSandbox
    ) -> Classes:
        place = self._place(allotment, container.id, sandbox)
        requested = self._requested(allotment, container, place)
        native = self._owned(requested, "native")
        # The runtime may have withdrawn a whole type, and still has containers that were started in its classes.
        ownerless = self._discovery.native and any(self._found.owner(kind) is None for kind in requested)
        has = (await self._runtime.container(container.id)).classes if native or ownerless else {}
        return {
            kind: self._report(pod, container.name, kind, name, has)
            if kind in native or (kind in has and self._found.owner(kind) is None)
            else self._in_kernel(pod, container.name, place, kind, name)
            for kind, name in requested.items()
        }

    def _in_kernel(self, pod: AgentPod, container: str, place: ClassGroup, kind: str, name: str) -> str:
        """Return the class in the kernel for a cgroup, after correcting the agent's own types: its name, or empty."""
        if not self._found.offers(kind, name):
            if (kind, name) in self._discovery.once_offered:
                self._events.vanished(pod, container, kind, name)
            return name if self._placements.holds(place, kind, name) else ""
        own = self._found.owner(kind) == "agent"
        together = {**self._placements.classes(place), kind: name}
        # Read from the kernel each time: another program may have moved the processes or changed the file.
        if self._kernel.has(place.group, kind, name):
            self._events.effective(pod, container, kind)
            if own:
                self._placements.remember(place, together)
            return name
        if not own or not self._placements.wanted_otherwise(place, kind, name):
            self._events.not_effective(pod, container, kind, name)
        if not own:
            return ""
        with suppress(CgroupError):
            self._placements.put(place, together)
        return name if self._kernel.has(place.group, kind, name) else ""

    def _report(self, pod: AgentPod, container: str, kind: str, name: str, has: Classes) -> str:
        """Return the requested class if the runtime reports it in effect; else empty."""
        in_effect = has.get(kind) == name
        # A restarted agent has never seen the class offered, but the runtime accepted it when it was.
        if not self._found.offers(kind, name) and (in_effect or (kind, name) in self._discovery.once_offered):
            self._events.vanished(pod, container, kind, name)
        if in_effect:
            self._events.effective(pod, container, kind)
            return name
        self._events.not_effective(pod, container, kind, name)
        return ""

    # --- owners, places and requests --------------------------------------------------------------------------------

    async def _native_changes(self, id: str, requested: Classes) -> dict[str, str]:
        """Return the classes that an update must name; the empty class is the runtime's default."""
        has = (await self._runtime.container(id)).classes
        wanted = self._owned(requested, "native")
        changed = {kind: name for kind, name in wanted.items() if has.get(kind) != name}
        return changed | {kind: "" for kind, name in has.items() if name and kind not in wanted and self._mutable(kind)}

    def _mutable(self, kind: str) -> bool:
        found = self._found.types.get(kind)
        return found is not None and not found.immutable

    def _place(self, allotment: PodAllotment, id: str, sandbox: RuntimeSandbox) -> ClassGroup:
        """Return the cgroup of a container's processes: with its own kernel, the sandbox's cgroup holds all."""
        group = self._group(allotment)
        if self._own_kernel(sandbox.handler):
            return ClassGroup(allotment.uid, sandbox.id, self._kernel.holder(group, f"{group}/{sandbox.id}"))
        return ClassGroup(allotment.uid, id, f"{group}/{id}")

    def _requested(self, allotment: PodAllotment, container: RuntimeContainer, place: ClassGroup) -> Classes:
        given = allotment.containers.get(container.name)
        own = given.classes if given else {}
        return own if place.id == container.id else {**own, **self._of_all(allotment)}

    def _of_all(self, allotment: PodAllotment) -> Classes:
        """Return the agent's classes of all containers together: one per type at most, or the pod is rejected."""
        together = {kind: name for each in allotment.containers.values() for kind, name in each.classes.items()}
        return self._offered(self._owned(together, "agent"))

    def _available(self, requested: Classes) -> Classes:
        """Return the offered classes. Raises RuntimeFault if a requested one is not offered and required."""
        # Unreachable, not refused: the caller tries again, instead of starting without the class.
        if requested and self._discovery.catalogue is None:
            raise RuntimeUnreachable("which classes there are is not known until the runtime has answered")
        if not self._discovery.lenient:
            for place in sorted(requested.items()):
                if not self._found.offers(*place):
                    known = self._found.offered.find(place[0])
                    raise RuntimeRefused(refusals.not_offered(place, self._node, known.classes if known else ()))
        return self._offered(requested)

    def _offered(self, requested: Classes) -> dict[str, str]:
        return {kind: name for kind, name in requested.items() if self._found.offers(kind, name)}

    def _owned(self, requested: Classes, owner: Owner) -> dict[str, str]:
        return {kind: name for kind, name in requested.items() if self._found.owner(kind) == owner}

    @property
    def _found(self) -> Catalogue:
        return self._discovery.catalogue or NOTHING_FOUND


# Annotations about classes that runtimes read: the one that the agent sends, and those that pods may not send.
#
# A runtime with a class file accepts its keys from any pod. With the feature on, classes are requested from this node,
# where quotas and capacities count; a key for the runtime itself is not forwarded.


def to_runtime(classes: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that put a container into classes owned by the runtime."""
    return {_TO_RUNTIME[kind]: name for kind, name in classes.items() if kind in _TO_RUNTIME}


def withheld(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that are not forwarded, each with the one to use instead."""
    return {key: use for key in annotations if (use := _instead(key))}


def _instead(key: str) -> str:
    for kind, sent in _TO_RUNTIME.items():
        if key == sent:
            return default_annotation(kind)
    kind, found, rest = key.partition(_BETA)
    if not found:
        return ""
    if kind not in ANNOTATED_TYPES:
        return f"{kind}.resources.alpha.kubernetes.io/default"
    if rest.startswith(_OF_CONTAINER):
        return container_annotation(kind, rest.removeprefix(_OF_CONTAINER))
    return default_annotation(kind)


def unified(parameters: BlockioParameters) -> dict[str, str]:
    """Return files and their content. There is room for one disk: `classdiscovery` offers no class that has more."""
    found: dict[str, str] = {}
    for disk in {disk: None for rates in parameters.throttles.values() for disk in rates}:
        found["io.max"] = io_max_line(disk, parameters.throttles)
    if parameters.weight is not None:
        found["io.weight"] = str(unified_weight(parameters.weight))
    return found
