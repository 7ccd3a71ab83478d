"""Where the processes of pods run: the kernel is told what `manager` says, and what it does is looked at.

The groups of a pod are written to directly. Asking the runtime would start a program for each container, which takes
long for many, and it would put back other limits that it remembers. A pod's own group has what its containers have
together: a container that is told to begin anywhere else does not begin, whoever told it, and a sandbox with its own
kernel, whose processes are all in one group, is held by it from its first moment.

Others leave before a process with processors of its own begins (`vacate`):

1. who begins at this moment, on processors that it may no longer have, has begun;
2. everybody is put where he belongs, and who begins from now on is told the new pool;
3. no process of another pod says that it may run there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Set
from contextlib import contextmanager

from tarmac.agent.cgroups.hierarchy import CgroupError, Hierarchy
from tarmac.agent.cgroups.pods import KubePods
from tarmac.agent.processors.manager import CPUManager
from tarmac.base.clock import Clock
from tarmac.base.cpuset import CPUSet
from tarmac.base.log import log
from tarmac.base.tasks import first
from tarmac.runtimes.interface import Runtime, RuntimeFault
from tarmac.runtimes.labels import POD_UID

_PREFIX = "crio-"  # by which one runtime begins the names of its groups
_log = log("processors")


class Placement:
    """Puts processes where they belong. `runtime` only tells which containers there are."""

    def __init__(
        self, cpus: CPUManager, hierarchy: Hierarchy, groups: KubePods, runtime: Runtime, clock: Clock, period: float
    ) -> None:
        self._cpus = cpus
        self._hierarchy = hierarchy
        self._groups = groups
        self._runtime = runtime
        self._clock = clock
        self._period = period
        self._names: dict[str, tuple[str, str]] = {}  # pod and name of each container, by its id
        self._beginning: dict[object, tuple[str, CPUSet]] = {}  # the pod of each start that is under way, and where
        self._begun = asyncio.Event()
        self._looked: float | None = None
        self._vacated: set[str] = set()  # pods whose processors nobody else runs on any more

    async def run(self, known: Callable[[], Set[str] | None]) -> None:
        """Compare and mend, now and then and when something changed. `known`: all pods, None while they are not."""
        while True:
            self._cpus.changed.clear()
            try:
                await self._look_if_due()
                self._place_all()
            except RuntimeFault as fault:
                _log.debug("containers are not looked at", why=str(fault))
            if (pods := known()) is not None:
                # A pod that nobody knows may still have processes: those who bury it give its processors back.
                self._cpus.forget(pods | self._groups.uids())
            await first(self._clock.sleep(self._period), self._cpus.changed.wait())

    def learn(self, id: str, uid: str, name: str) -> None:
        """A container was made."""
        self._names[id] = uid, name

    def unlearn(self, id: str) -> None:
        """It is no more."""
        self._names.pop(id, None)

    async def whose(self, id: str) -> tuple[str, str]:
        """Pod and name of a container. Raises RuntimeFault."""
        if id not in self._names:
            found = await self._runtime.container(id)
            self._names[id] = found.labels.get(POD_UID, ""), found.name
        return self._names[id]

    async def _look(self) -> None:
        """Know which containers there are: those of this agent's it made itself. Raises RuntimeFault."""
        known = set(self._names)
        listed = {each.id: (each.labels.get(POD_UID, ""), each.name) for each in await self._runtime.containers()}
        # What was made while the list was on its way is not in it, and is not gone.
        self._names = {one: each for one, each in self._names.items() if one in listed or one not in known} | listed
        self._looked = self._clock.monotonic()

    async def _look_if_due(self) -> None:
        if self._looked is None or self._clock.monotonic() - self._looked >= self._period:
            await self._look()

    def _place_all(self) -> None:
        """Put everybody where he belongs."""
        busy = {uid for uid, _ in self._beginning.values()}
        for uid, path in self._groups.paths().items():
            # Whoever begins something in a pod places it himself: taking processors from a group in which the runtime
            # makes another one at this moment would fail one of the two.
            if uid not in busy:
                try:
                    self._place(uid, path)
                except CgroupError as error:
                    _log.warning("a pod is not on its processors", pod=uid, why=str(error))
        self._vacated = {uid for uid in self._vacated if self._cpus.own(uid)}

    async def vacate(self, uid: str) -> None:
        """Return when nobody else runs, or will, on the processors that the pod has to itself. Raises RuntimeFault."""
        own = self._cpus.own(uid)
        if not own or uid in self._vacated:
            return
        while any(other != uid and cpus & own for other, cpus in self._beginning.values()):
            self._begun.clear()
            await self._begun.wait()
        if self._looked is None:
            await self._look()
        self._place_all()
        # In a thread: a pod may have thousands of processes, and each is asked.
        if left := await asyncio.to_thread(self._others_on, uid, own):
            raise RuntimeFault(f"CPUs {own} are not free yet: {left} still runs there")
        self._vacated.add(uid)

    @contextmanager
    def beginning(self, uid: str, cpus: CPUSet, path: str = "") -> Generator[None]:
        """While something begins in a pod, on these processors. Raises RuntimeFault."""
        mark, before = object(), self._cpus.changes
        self._beginning[mark] = uid, cpus
        try:
            self._place_or_fail(uid, path)
            yield
        finally:
            del self._beginning[mark]
            self._begun.set()
            if self._cpus.changes != before:
                self._cpus.changed.set()  # what changed meanwhile was not done for this pod

    def _place_or_fail(self, uid: str, path: str) -> None:
        try:
            if path:
                self._hierarchy.make(path)  # a handler's trial has no group yet
            if path := path or self._groups.find(uid):
                self._place(uid, path)
        except CgroupError as error:
            raise RuntimeFault(f"processors of the pod not set: {error}") from error

    def _place(self, uid: str, path: str) -> None:
        together = self._cpus.of_pod(uid)
        if together is None:
            return  # of a pod that an earlier agent had, and that is not adopted yet: all is as that agent left it
        inner = {one: self._cpus.of_container(uid, name) for one, (pod, name) in self._names.items() if pod == uid}
        prefixed = {_PREFIX + one: cpus for one, cpus in inner.items()}
        self._hierarchy.pin(path, together, {**inner, **prefixed})

    def _others_on(self, uid: str, own: CPUSet) -> str:
        """A pod other than this one that has a process on these processors."""
        for other, path in self._groups.paths().items():
            if other != uid and self._hierarchy.allowed(path) & own:
                return f"pod {other}"
        return ""
