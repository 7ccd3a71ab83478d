"""Runs the providers periodically while the node runs, if a period is set.

New amounts take effect at once: first on the cgroup above all pods, then in the node's status and in admission. No pod
is evicted for it. On any failure all amounts stay as they were, and an event reports the error that would have
prevented a start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.sizing.providers import ProviderFailed
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.client.eventrecorder import EventType
from tarmac.decide.allocatable.reservations import NOTHING, Reservations, Reserved
from tarmac.decide.amounts import CPU, shown

RecordEvent = Callable[[EventType, str, str], None]
"""Records an event of the node: type, reason, message."""
_log = log("agent")


class PeriodicSizing:
    """Sizes the node every `period` seconds. `apply` puts new sizes into effect, or raises BadConfig.

    `keep_cpu`: exclusive CPUs are chosen from the unreserved ones, so the CPU reservation stays unchanged until the
    next start.
    """

    def __init__(
        self,
        size: Callable[[], Awaitable[Reservations]],
        current: Callable[[], Reservations],
        apply: Callable[[Reservations], None],
        record_event: RecordEvent,
        period: float,
        clock: Clock,
        keep_cpu: bool = False,
    ) -> None:
        self._size = size
        self._current = current
        self._apply = apply
        self._record_event = record_event
        self._period = period
        self._clock = clock
        self._keep_cpu = keep_cpu
        self._waiting: Reservations | None = None

    async def run(self) -> None:
        """Size the node periodically until cancelled."""
        while True:
            # The pause first: the agent has sized the node at its start.
            await self._clock.sleep(self._period)
            await self.once()

    async def once(self) -> None:
        """Size the node now."""
        before = self._current()
        try:
            asked = await self._size()
            found = _with_cpu_of(before, asked) if self._keep_cpu else asked
            if found != before:
                self._apply(found)
        except (BadConfig, ProviderFailed) as error:
            _log.warning("sizing failed, reservations unchanged", why=str(error))
            self._record_event("Warning", "SizingProviderFailed", str(error))
            return
        if found != before:
            differences = "; ".join(_differences(before, found))
            _log.info("reservations changed", changed=differences)
            self._record_event("Normal", "SizingChanged", f"Reservations of the node changed: {differences}")
        if asked != found and asked != self._waiting:
            differences = "; ".join(_differences(found, asked))
            _log.info("reservations will change at the next start", changed=differences)
            message = f"Waits for the next start, since CPU manager policy is static: {differences}"
            self._record_event("Normal", "SizingChanged", message)
        self._waiting = asked


def _with_cpu_of(before: Reservations, asked: Reservations) -> Reservations:
    return replace(asked, system=_cpu_of(before.system, asked.system), kube=_cpu_of(before.kube, asked.kube))


def _cpu_of(before: Mapping[str, Reserved], asked: Mapping[str, Reserved]) -> dict[str, Reserved]:
    others = {resource: each for resource, each in asked.items() if resource != CPU}
    return {CPU: before[CPU], **others} if CPU in before else others


def _differences(before: Reservations, after: Reservations) -> Iterator[str]:
    yield from _of_pool("systemReserved", before.system, after.system)
    yield from _of_pool("kubeReserved", before.kube, after.kube)


def _of_pool(pool: str, before: Mapping[str, Reserved], after: Mapping[str, Reserved]) -> Iterator[str]:
    for resource in sorted(before.keys() | after.keys()):
        old, new = before.get(resource, NOTHING), after.get(resource, NOTHING)
        if old != new:
            amounts = f"{shown(resource, old.amount)} ({old.source or 'nobody'})", shown(resource, new.amount)
            yield f"{pool} {resource} from {amounts[0]} to {amounts[1]} ({new.source or 'nobody'})"
