"""Taking away what pods leave behind: sandboxes and containers in the runtime, volumes, cgroups, files and logs."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Set

from tarmac.agent.containers.notes import TERMINATION_GRACE
from tarmac.agent.pods.dependencies import PodDependencies
from tarmac.agent.pods.termination import LEAST_GRACE
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.client.backoff import Backoff
from tarmac.runtimes.interface import Container

FIRST_RETRY = 1.0
LONGEST_RETRY = 60.0

_log = log("pods")


class PodCleanup:
    """Buries pods, each once, trying for as long as it takes."""

    def __init__(self, tools: PodDependencies, buried: Callable[[str], None]) -> None:
        self._tools = tools
        self._buried = buried
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._owned = Tasks()

    @property
    def busy(self) -> Set[str]:
        """Uids of pods that are being buried."""
        return self._tasks.keys()

    def bury(self, uid: str, *, released: bool = False) -> None:
        """Leave nothing of this pod. `released`: its worker has given back its volumes and its cgroup."""
        if uid not in self._tasks:
            task = self._tasks[uid] = self._owned.begin(self._persist(uid, released), f"burying {uid}")
            task.add_done_callback(lambda _: self._tasks.pop(uid, None))

    async def close(self) -> None:
        """Stop; the next agent finds what is left."""
        await self._owned.close()

    async def _persist(self, uid: str, released: bool) -> None:
        backoff = Backoff(self._tools.randomness, FIRST_RETRY, LONGEST_RETRY)
        while True:
            try:
                await self._once(uid, released)
            except Exception as error:
                _log.info("pod not buried yet", uid=uid, error=str(error))
                await self._tools.clock.sleep(backoff.next())
            else:
                self._buried(uid)
                return

    async def _once(self, uid: str, released: bool) -> None:
        runtime = self._tools.runtime
        sandboxes = await runtime.sandboxes(uid)
        running = [each for each in await runtime.containers(uid) if each.state in ("running", "unknown")]
        await asyncio.gather(*(runtime.stop_container(each.id, _grace(each)) for each in running))
        for sandbox in sandboxes:
            await runtime.stop_sandbox(sandbox.id)
        if not released:
            await self._tools.volumes.unmount(uid)
            await self._tools.cgroups.remove(uid)
            self._tools.allocator.release(uid)
        for sandbox in sandboxes:
            await runtime.remove_sandbox(sandbox.id)
        self._clear(uid)

    def _clear(self, uid: str) -> None:
        """Files last: as long as the definition is there, the next agent knows that something is left."""
        for logs in self._tools.paths.logs.glob(f"*_{uid}"):
            shutil.rmtree(logs, ignore_errors=True)
        home = self._tools.paths.home(uid)
        if home.exists():
            shutil.rmtree(home)


def _grace(container: Container) -> float:
    stated = container.annotations.get(TERMINATION_GRACE, "")
    return max(LEAST_GRACE, float(stated) if stated.isdigit() else 0.0)
