"""Collects dead containers and sandboxes: one former container per name is kept for its log and exit code.

The newest sandbox of a pod, and pods with one container per name, belong to the pod loop; only surplus is removed here.
A removed container's log goes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.runtimes.interface import Runtime, RuntimeContainer, RuntimeFault, RuntimeSandbox
from tarmac.runtimes.labels import POD_NAME, POD_NAMESPACE, POD_UID

INTERVAL: Final = 60.0
KEPT: Final = 1
_log = log("collection")


class DeadContainers:
    """Removes surplus containers. `logs` is the directory of all pods' logs."""

    def __init__(self, runtime: Runtime, logs: Path, clock: Clock) -> None:
        self._runtime = runtime
        self._logs = logs
        self._clock = clock

    async def run(self) -> None:
        """Collect every minute until cancelled."""
        while True:
            await self._clock.sleep(INTERVAL)
            try:
                await self.collect()
            except RuntimeFault as error:
                _log.warning("container collection failed, will retry", why=str(error))

    async def collect(self) -> int:
        """Remove surplus; return the number of removed containers. Raises RuntimeFault."""
        # A container created between the two lists is in a ready sandbox, which is never removed here.
        containers, sandboxes = await self._runtime.containers(), await self._runtime.sandboxes()
        gone = surplus(containers)
        for container in gone:
            await self._runtime.remove_container(container.id)
            # After the container: a kill in between leaves only a log, which goes with the directory of the pod.
            self._forget_log(container)
        removed = {each.id for each in gone}
        left = {each.sandbox_id for each in containers if each.id not in removed}
        for sandbox in surplus_sandboxes(sandboxes, left):
            await self._runtime.remove_sandbox(sandbox.id)
        return len(gone)

    def _forget_log(self, container: RuntimeContainer) -> None:
        labels = container.labels
        pod = f"{labels.get(POD_NAMESPACE)}_{labels.get(POD_NAME)}_{labels.get(POD_UID)}"
        for file in (self._logs / pod / container.name).glob(f"{container.attempt}.log*"):
            file.unlink(missing_ok=True)


def surplus(containers: Sequence[RuntimeContainer]) -> list[RuntimeContainer]:
    """Return dead containers beyond the newest of their pod and name, and its predecessor."""
    by_name: dict[tuple[str, str], list[RuntimeContainer]] = {}
    for container in containers:
        by_name.setdefault((container.labels.get(POD_UID, ""), container.name), []).append(container)
    found: list[RuntimeContainer] = []
    for same in by_name.values():
        newest_first = sorted(same, key=lambda each: (-each.attempt, -each.created_at))
        found += [each for each in newest_first[1 + KEPT :] if each.state in ("exited", "unknown")]
    return found


def surplus_sandboxes(sandboxes: Sequence[RuntimeSandbox], used: set[str]) -> list[RuntimeSandbox]:
    """Return dead sandboxes without containers that are not the newest of their pod."""
    newest: dict[str, RuntimeSandbox] = {}
    for sandbox in sandboxes:
        known = newest.get(sandbox.pod.uid)
        if known is None or _order(sandbox) > _order(known):
            newest[sandbox.pod.uid] = sandbox
    return [each for each in sandboxes if not each.ready and each.id not in used and newest[each.pod.uid].id != each.id]


def _order(sandbox: RuntimeSandbox) -> tuple[int, float]:
    """Order by attempt first: the clock may have been set back between two of them."""
    return sandbox.pod.attempt, sandbox.created_at
