"""Removal of terminated pods: sandboxes and containers in the runtime, volumes, cgroups, files and logs."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Set

from tarmac.agent.containers.notes import TERMINATION_GRACE
from tarmac.agent.pods.dependencies import PodDependencies
from tarmac.agent.pods.termination import MIN_GRACE
from tarmac.base.digits import whole_number
from tarmac.base.duration import MAX_SECONDS
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.client.backoff import Backoff
from tarmac.runtimes.interface import RuntimeContainer

FIRST_RETRY = 1.0
MAX_RETRY = 60.0

_log = log("pods")


class PodCleanup:
    """Cleans up pods, one task per pod, retrying until it succeeds."""

    def __init__(self, deps: PodDependencies, done: Callable[[str], None]) -> None:
        self._deps = deps
        self._done = done
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._owned = Tasks()

    @property
    def busy(self) -> Set[str]:
        """Uids of pods whose cleanup is in progress."""
        return self._tasks.keys()

    def clean_up(self, uid: str, *, released: bool = False) -> None:
        """Remove all resources of this pod.

        `released`: its worker has already unmounted its volumes and removed its cgroup.
        """
        if uid not in self._tasks:
            task = self._tasks[uid] = self._owned.begin(self._persist(uid, released), f"burying {uid}")
            # Removed by the task itself: until then a sweep counts the pod as busy and does not clean it up twice.
            task.add_done_callback(lambda _: self._tasks.pop(uid, None))

    async def close(self) -> None:
        """Cancel running cleanups; the next agent finds the remains and starts over."""
        await self._owned.close()

    async def _persist(self, uid: str, released: bool) -> None:
        backoff = Backoff(self._deps.randomness, FIRST_RETRY, MAX_RETRY)
        while True:
            try:
                await self._once(uid, released)
            except Exception as error:
                _log.info("pod cleanup failed, will retry", uid=uid, error=str(error))
                await self._deps.clock.sleep(backoff.next())
            else:
                # Only after success, and after the directory: a checkpoint written later would create it again.
                self._done(uid)
                return

    async def _once(self, uid: str, released: bool) -> None:
        runtime = self._deps.runtime
        sandboxes = await runtime.sandboxes(uid)
        running = [each for each in await runtime.containers(uid) if each.state in ("running", "unknown")]
        # Processes first: volumes and cgroups in use cannot be removed.
        # The first failure raises while the other stops go on: the repeated cleanup stops what is left.
        await asyncio.gather(*(runtime.stop_container(each.id, _grace(each)) for each in running))
        for sandbox in sandboxes:
            # Also sandboxes that are not ready: only a stop releases their network, and a killed agent may not have got
            # there.
            await runtime.stop_sandbox(sandbox.id)
        if not released:
            await self._deps.volumes.unmount(uid)
            await self._deps.cgroups.remove(uid)
            # Last: freed CPUs and devices may be assigned at once, so no process of the pod may be left.
            self._deps.allocator.release(uid)
        for sandbox in sandboxes:
            await runtime.remove_sandbox(sandbox.id)
        # Last: after a kill of the agent the sweep finds the rest of the pod by this directory.
        self._clear(uid)

    def _clear(self, uid: str) -> None:
        """Delete logs and files.

        The checkpoint goes last: while it exists, the next agent knows that cleanup is incomplete.
        """
        for logs in self._deps.paths.logs.glob(f"*_{uid}"):
            shutil.rmtree(logs, ignore_errors=True)
        home = self._deps.paths.home(uid)
        if home.exists():
            # Only after the unmount: rmtree crosses mount points and would delete the data of a mounted volume.
            shutil.rmtree(home)


def _grace(container: RuntimeContainer) -> float:
    stated = container.annotations.get(TERMINATION_GRACE, "")
    return max(MIN_GRACE, float(whole_number(stated, MAX_SECONDS) or 0))
