"""Reports changes of pods: the runtime's own events, and periodic polls for events that were lost.

containerd 1.6 has no events. 1.7 has one queue for all subscribers, so a dead subscriber consumes the next event, and a
new one first gets old events. 2.x delivers every event to every subscriber. Hence the poll of all states every ten
seconds, every second without events: a change that it finds is reported like an event. Pending changes are a set, so
repeated changes are delivered once to a slow listener.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Literal

from tarmac.base.clock import Clock
from tarmac.base.tasks import Tasks
from tarmac.runtimes.cri._generated import cri_subset_pb2 as pb
from tarmac.runtimes.cri.channel import CriChannel, Unsupported
from tarmac.runtimes.interface import RuntimeEvent, RuntimeFault

_POLL_INTERVAL = 10.0
_POLL_INTERVAL_WITHOUT_EVENTS = 1.0
_RECONNECT_SECONDS = 0.5

_WHAT: Mapping[int, Literal["created", "started", "stopped", "deleted"]] = {
    pb.CONTAINER_CREATED_EVENT: "created",
    pb.CONTAINER_STARTED_EVENT: "started",
    pb.CONTAINER_STOPPED_EVENT: "stopped",
    pb.CONTAINER_DELETED_EVENT: "deleted",
}

States = Mapping[str, tuple[str, object]]  # by id: the pod's uid and the state


class ChangeFeed:
    """The changes seen by one listener. `look` reads all states."""

    def __init__(self, channel: CriChannel, look: Callable[[], Awaitable[States]], clock: Clock) -> None:
        self._channel = channel
        self._read_states = look
        self._clock = clock
        self._interval = _POLL_INTERVAL
        self._pending: dict[RuntimeEvent | None, None] = {None: None}  # None first: list everything
        self._wake = asyncio.Event()

    async def changes(self) -> AsyncGenerator[RuntimeEvent | None]:
        """Yield changes for ever."""
        owned = Tasks()
        tasks = (
            owned.track(self._listen(), "events"),
            owned.track(self._poll(), "poll of all states"),
        )
        for task in tasks:
            task.add_done_callback(lambda _: self._wake.set())
        try:
            while True:
                while self._pending:
                    event = next(iter(self._pending))
                    del self._pending[event]
                    yield event
                await self._wake.wait()
                self._wake.clear()
                for task in tasks:
                    if task.done():
                        task.result()  # neither task ends except by a bug, which must not go unnoticed
        finally:
            await owned.close()

    def _notify(self, event: RuntimeEvent | None) -> None:
        self._pending[event] = None
        self._wake.set()

    async def _listen(self) -> None:
        while True:
            try:
                async for event in self._channel.stream(
                    "runtime.v1.RuntimeService/GetContainerEvents", pb.Nothing(), pb.ContainerEventResponse.FromString
                ):
                    uid = event.pod_sandbox_status.metadata.uid
                    self._notify(
                        RuntimeEvent(uid, event.container_id, _WHAT[event.container_event_type]) if uid else None
                    )
            except Unsupported:
                self._interval = _POLL_INTERVAL_WITHOUT_EVENTS
                await asyncio.Event().wait()
            except RuntimeFault:
                await self._until_it_answers()
            self._notify(None)

    async def _until_it_answers(self) -> None:
        while True:
            await self._clock.sleep(_RECONNECT_SECONDS)
            with contextlib.suppress(RuntimeFault):
                await self._read_states()
                return

    async def _poll(self) -> None:
        known: States | None = None
        while True:
            with contextlib.suppress(RuntimeFault):  # the listener notices too, and yields None after the reconnect
                seen = await self._read_states()
                for uid in changed(known, seen):
                    self._notify(RuntimeEvent(uid))
                known = seen
            await self._clock.sleep(self._interval)


def changed(before: States | None, after: States) -> set[str]:
    """Return the uids of pods with a container or sandbox that appeared, disappeared or changed."""
    if before is None:
        return set()
    different = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    return {(after.get(key) or before[key])[0] for key in different}
