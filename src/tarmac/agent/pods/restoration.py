"""Protects running pods after the server's store was restored from an older backup.

`Restoration` detects a restore and talks to the server about it; `UndecidedPods` applies the decisions to the pods.

The Node's annotation `tarmac.dev/restored` has the time of the restore. A node that has not completed that restore ends
no pod for being unknown to the server and starts no pod that may run elsewhere. It reports its running pods repeatedly,
until every node has done so and every difference from the store has been decided. Only then is the time written to disk
as completed; an agent killed earlier starts over.

A restore invalidates every revision that clients know, so pods are always listed again. Reading the Node right before
each list is therefore enough; watches need no check.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from tarmac.agent.model.pod import AgentPod
from tarmac.agent.pods.worker import PodWorker
from tarmac.api.identities import RESTORED
from tarmac.api.restored import RunningAnswer, RunningReport, running_path
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError, Disconnected
from tarmac.client.resourceclient import JSON_BODY
from tarmac.client.targets.untyped import NODES

RUNNING_REPORT_INTERVAL = 2.0
"""Interval of running reports after a restore."""
_SECONDS = 10.0
_log = log("pods")


class Restoration:
    """State of the restore that this node has to complete, if any."""

    def __init__(self, client: Client, node: str, note: Path, at_stake: Callable[[], bool]) -> None:
        """`note` stores the time of the last completed restore; `at_stake` returns True if any pod runs here."""
        self._at_stake = at_stake
        self._client = client
        self._node = node
        self._note = note
        self._time = ""
        self.listing = False  # a list is being applied: a pod missing in it may be unknown rather than deleted
        self.began = asyncio.Event()

    @property
    def active(self) -> bool:
        """True while running pods may be newer than the server's store."""
        return self.began.is_set()

    @asynccontextmanager
    async def around_listing(self) -> AsyncGenerator[None]:
        """Detect a restore before pods missing in the new list are treated as deleted."""
        await self._look()
        self.listing = True
        try:
            yield
        finally:
            self.listing = False

    async def report_running(self, report: RunningReport) -> RunningAnswer:
        """Report the running pods. Raises ApiError, ClientError."""
        report.restored = self._time
        body = msgspec.json.encode(report)
        reply = await self._client.call(
            "POST", running_path(self._node), body=body, headers=JSON_BODY, timeout=_SECONDS
        )
        return msgspec.json.decode(reply.body, type=RunningAnswer)

    def answered(self) -> None:
        """Record the restore as completed, for later agents too."""
        unfinished = self._note.with_suffix(".new")
        unfinished.write_text(self._time)
        # Atomically: half a time would count as a different restore, and running pods would be reported again.
        unfinished.replace(self._note)
        self.began.clear()
        _log.info("restore of the server's store completed", restored=self._time)

    async def _look(self) -> None:
        try:
            node = await self._client.resource(NODES).get(self._node)
        except NotFound:
            if self._at_stake():
                # The store may be older than this node. The Node says so once it is registered again.
                raise Disconnected(f"the server does not know the node {self._node} yet") from None
            return
        time = (node["metadata"].get("annotations") or {}).get(RESTORED, "")
        if time and time != self._known():
            self._time = time
            if not self.active:
                _log.warning("server's store was restored: running pods are kept until it is settled", restored=time)
            self.began.set()

    def _known(self) -> str:
        try:
            return self._note.read_text()
        except OSError:
            return ""


class UndecidedPods:
    """The pods that differ from a restored store: running ones that it lacks, and new ones that may run elsewhere.

    Neither ends nor starts before the server has decided. Outside a restore both sets are empty.
    """

    def __init__(
        self,
        restoration: Restoration,
        workers: Mapping[str, PodWorker],
        clock: Clock,
        synced: Callable[[], Awaitable[None]],
        is_wanted: Callable[[AgentPod], bool],
        add: Callable[[AgentPod], None],
        remove: Callable[[str], None],
    ) -> None:
        """`workers` are those of the manager, by uid; `synced` waits until the API's pods have been listed."""
        self._restoration = restoration
        self._workers = workers
        self._clock = clock
        self._synced = synced
        self._is_wanted = is_wanted
        self._add = add
        self._remove = remove
        self._unknown: set[str] = set()  # running, but missing or different in the restored store
        self._held: dict[str, AgentPod] = {}  # by uid; not started yet: after a restore they may run elsewhere

    @property
    def active(self) -> bool:
        """True while running pods may be newer than the server's store."""
        return self._restoration.active

    @property
    def listing(self) -> bool:
        """True while a list is applied: a pod missing in it may be unknown rather than deleted."""
        return self._restoration.listing

    def is_unknown(self, uid: str) -> bool:
        """Return True for a running pod that the restored store lacks, or has with a different uid."""
        return uid in self._unknown

    def confirm(self, uid: str) -> None:
        """Handle a pod that the store has, or that is gone: its end needs no decision."""
        self._unknown.discard(uid)

    def hold(self, pod: AgentPod) -> None:
        """Start this pod only after the server's decision."""
        self._held[pod.uid] = pod

    def drop(self, uid: str) -> None:
        """Do not start this pod: the API has removed it."""
        self._held.pop(uid, None)

    def remove(self, uid: str) -> None:
        """Terminate a pod missing from the API, unless a restored store may have lost it."""
        if not self.active:
            self._remove(uid)
        elif uid in self._workers:
            self._unknown.add(uid)

    async def run(self) -> None:
        """After a restore of the store, report the running pods until the server has decided about all."""
        while True:
            # The event stays set until the server has decided: each round reports again.
            await self._restoration.began.wait()
            await self._synced()
            try:
                await self._settle()
            except (ApiError, ClientError, OSError, ValueError) as error:
                _log.info("running pods cannot be reported yet", error=str(error))
            await self._clock.sleep(RUNNING_REPORT_INTERVAL)

    async def _settle(self) -> None:
        for uid in self._unknown & self._workers.keys():
            if self._workers[uid].over:
                self._remove(uid)
            elif self._is_wanted(self._workers[uid].pod):
                self._unknown.discard(uid)
        running = [_reported(each) for each in self._workers.values() if not each.pod.static and not each.over]
        # Taken before the report: a pod that is held during it was not reported, and waits for the next round.
        waiting = {pod.key: uid for uid, pod in self._held.items()}
        answer = await self._restoration.report_running(RunningReport("", running, list(waiting)))
        # Only those still unknown: a pod may have been confirmed while the report was in flight.
        for uid in self._unknown & set(answer.remove):
            self._unknown.discard(uid)
            self._remove(uid)
        if not answer.settled:
            return
        # Compared by name: a running pod with this name and a different uid blocks the start on any node, also here.
        taken = {*answer.held, *(self._workers[uid].pod.key for uid in self._unknown & self._workers.keys())}
        for uid in [uid for key, uid in waiting.items() if key not in taken]:
            # None if the API removed it during the report.
            if (pod := self._held.pop(uid, None)) is not None:
                self._add(pod)
        if not self._unknown and not self._held:
            self._restoration.answered()


def _reported(worker: PodWorker) -> JsonObject:
    """A pod as the node reports it. Managed fields are half of it, and adoption needs none."""
    shown = worker.shown()
    return {**shown, "metadata": {key: each for key, each in shown["metadata"].items() if key != "managedFields"}}
