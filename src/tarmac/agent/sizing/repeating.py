"""Asking the providers again while the node lives, beside everything else, if a period is set.

Other amounts take effect at once: first on the cgroup above all pods, then in what the node reports and admits pods by.
Nobody is evicted for it. Whatever goes wrong, all amounts stay as they were, and an event tells what would have refused
the start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping

from tarmac.agent.config.reading import BadConfig
from tarmac.agent.sizing.providers import ProviderFailed
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.client.events import EventType
from tarmac.decide.allocatable.reservations import NOTHING, Reservations, Reserved
from tarmac.decide.scheduling.amounts import shown

Tell = Callable[[EventType, str, str], None]
"""An event of the node: type, reason, message."""
_log = log("agent")


class Resizing:
    """Sizes the node again every `period` seconds. `apply` puts other sizes into effect, or raises BadConfig."""

    def __init__(
        self,
        size: Callable[[], Awaitable[Reservations]],
        current: Callable[[], Reservations],
        apply: Callable[[Reservations], None],
        tell: Tell,
        period: float,
        clock: Clock,
    ) -> None:
        self._size = size
        self._current = current
        self._apply = apply
        self._tell = tell
        self._period = period
        self._clock = clock

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(self._period)
            await self.once()

    async def once(self) -> None:
        """Ask now."""
        before = self._current()
        try:
            found = await self._size()
            if found == before:
                return
            self._apply(found)
        except (BadConfig, ProviderFailed) as error:
            _log.warning("the node keeps its sizes", why=str(error))
            self._tell("Warning", "SizingProviderFailed", str(error))
            return
        told = "; ".join(_differences(before, found))
        _log.info("the node has other sizes", changed=told)
        self._tell("Normal", "SizingChanged", f"Reservations of the node changed: {told}")


def _differences(before: Reservations, after: Reservations) -> Iterator[str]:
    yield from _of_pool("systemReserved", before.system, after.system)
    yield from _of_pool("kubeReserved", before.kube, after.kube)


def _of_pool(pool: str, before: Mapping[str, Reserved], after: Mapping[str, Reserved]) -> Iterator[str]:
    for resource in sorted(before.keys() | after.keys()):
        old, new = before.get(resource, NOTHING), after.get(resource, NOTHING)
        if old != new:
            amounts = f"{shown(resource, old.amount)} ({old.said_by or 'nobody'})", shown(resource, new.amount)
            yield f"{pool} {resource} from {amounts[0]} to {amounts[1]} ({new.said_by or 'nobody'})"
