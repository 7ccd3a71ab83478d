"""A kernel with cpusets of version 1, and a runtime that starts processes in them, for tests in virtual time.

Every change is checked: no process may run on the exclusive processors of a running container. A start that an agent
requested continues when the agent is killed, as in a real runtime.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.model.cgrouplimits import CgroupLimits
from tarmac.base.clock import Clock
from tarmac.base.cpuset import CPUSet
from tarmac.runtimes.fake import FakeRuntime
from tarmac.runtimes.forwarding import ForwardingRuntime
from tarmac.runtimes.interface import RuntimeContainer, RuntimeRefused, SandboxConfig

ALONE = "alone"
"""Containers of this name have exclusive processors."""


class Kernel:
    """Implements `Hierarchy`."""

    def __init__(self, cpus: int) -> None:
        self.groups: dict[str, CPUSet] = {"": CPUSet(range(cpus))}
        self.violations: list[str] = []
        self.processes: dict[str, str] = {}  # path -> name of the container; empty for a sandbox

    def begin(self, path: str, cpus: CPUSet | None, name: str) -> None:
        """Start a process in a new group; without processors of its own, the group inherits those of its parent."""
        above = self.groups[path.rpartition("/")[0]]
        if cpus is not None and not cpus <= above:
            raise RuntimeRefused(f"write cpuset.cpus: permission denied: {cpus} in {above}")
        self.groups[path] = above if cpus is None else cpus
        self.processes[path] = name
        self.check()

    def end(self, path: str) -> None:
        self.processes.pop(path, None)

    def check(self) -> None:
        """Record a violation if a process runs on the exclusive processors of a container."""
        for path, name in self.processes.items():
            if name != ALONE:
                continue
            for other in self.processes:
                strangers = _pod(other) != _pod(path)
                if strangers and self.groups[other] & self.groups[path]:
                    self.violations.append(f"{other} runs on CPUs of {path}")

    def inhabitants(self, path: str) -> set[int]:
        return set()

    def occupied(self, path: str) -> bool:
        return path in self.processes

    def block_io(self) -> None:
        return None

    def make(self, path: str) -> bool:
        if path in self.groups or not path:
            return False
        above = path.rpartition("/")[0]
        self.make(above)
        self.groups[path] = self.groups[above]
        return True

    def limit(self, path: str, limits: CgroupLimits) -> None:
        return None

    def widen(self, path: str) -> None:
        return None

    def pin(self, path: str, cpus: CPUSet, inner: Mapping[str, CPUSet]) -> None:
        wanted = {path: cpus} | {
            each: inner.get(each.removeprefix(f"{path}/"), cpus) for each in self.groups if each.startswith(f"{path}/")
        }
        for group, will in wanted.items():
            if not will <= self.groups[path.rpartition("/")[0]]:
                raise CgroupError(f"{group}: {will}: permission denied")
        self.groups |= wanted
        self.check()

    def allowed(self, path: str) -> CPUSet:
        inside = (each for each in self.processes if each.startswith(f"{path}/"))
        return CPUSet(cpu for each in inside for cpu in self.groups[each])

    def entrances(self, path: str) -> Sequence[Path]:
        return ()

    def exists(self, path: str) -> bool:
        return path in self.groups

    def children(self, path: str) -> Sequence[str]:
        return [each.rpartition("/")[2] for each in self.groups if each and each.rpartition("/")[0] == path]

    def kill(self, path: str) -> int:
        for each in [each for each in self.processes if each.startswith(f"{path}/")]:
            self.end(each)
        return 0

    def remove(self, path: str) -> bool:
        self.kill(path)
        for each in [each for each in self.groups if each == path or each.startswith(f"{path}/")]:
            del self.groups[each]
        return True

    def shares(self, path: str) -> int:
        return 0

    def memory_resident(self, path: str) -> int:
        return 0

    def cpu_used(self, path: str) -> float:
        return 0.0

    def oom_kills(self, path: str) -> int:
        return 0

    def memory_used(self, path: str) -> int:
        return 0


class KernelRuntime(ForwardingRuntime):
    """A fake runtime whose processes are in groups of the kernel."""

    def __init__(self, runtime: FakeRuntime, kernel: Kernel, clock: Clock, slowness: Callable[[], float]) -> None:
        super().__init__(runtime)
        self._fake = runtime
        self._kernel = kernel
        self._clock = clock
        self._slowness = slowness
        self._folders: dict[str, str] = {}  # sandbox -> cgroup of its pod
        self._paths: dict[str, str] = {}  # sandbox or started container -> its cgroup
        self._asked: set[asyncio.Task[None]] = set()

    async def run_sandbox(self, config: SandboxConfig, handler: str) -> str:
        made = await super().run_sandbox(config, handler)
        self._folders[made] = config.cgroup_parent
        self._paths[made] = f"{config.cgroup_parent}/{made}"
        self._kernel.begin(self._paths[made], None, "")
        return made

    async def containers(self, pod_uid: str | None = None) -> Sequence[RuntimeContainer]:
        if pod_uid is None:
            await self._clock.sleep(self._slowness())
        return await super().containers(pod_uid)

    async def start_container(self, id: str) -> None:
        await self._whatever_becomes_of_the_agent(self._start(id))

    async def stop_container(self, id: str, grace: float) -> None:
        await super().stop_container(id, grace)
        self._kernel.end(self._paths.get(id, ""))

    async def stop_sandbox(self, id: str) -> None:
        await super().stop_sandbox(id)
        self._kernel.end(self._paths.get(id, ""))

    async def _start(self, id: str) -> None:
        """Read the container's resources, wait, and start the process, as a slow runtime does."""
        found = await self._fake.container(id)
        told = CPUSet.parse(self._fake.resources_of(id).cpuset_cpus)
        await self._clock.sleep(self._slowness())
        folder = self._folders[found.sandbox_id]
        if not self._kernel.exists(folder):
            raise RuntimeRefused("the pod is gone")
        self._paths[id] = f"{folder}/{id}"
        self._kernel.begin(self._paths[id], told, found.name)
        await super().start_container(id)

    async def _whatever_becomes_of_the_agent(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(task)


def _pod(path: str) -> str:
    return path.rpartition("/")[0]
