"""Writes of the scheduler: bindings, and the reason for unschedulable pods.

A fixed number of workers write concurrently; concurrent writes share a commit in the store. Bodies are assembled as
strings: bindings differ in a few values only, and there are thousands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from tarmac.api.compute.names import ANNOTATION_UNSCHEDULABLE, LABEL_DEPLOYMENT_UID
from tarmac.api.conditions import find
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.partial import PartialPod, partial_pod
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.clock import rfc3339
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError, NotLeader
from tarmac.client.targets.target import encode
from tarmac.client.targets.untyped import PODS
from tarmac.controllers.scheduler.backlog import Waiter
from tarmac.controllers.scheduler.schedulerstate import SchedulerState
from tarmac.decide.scheduling import Pod

WORKERS = 128
WAITING = 256  # maximum queue of decisions ahead of the writes
UNSCHEDULABLE = "Unschedulable"
_STRATEGIC = {"accept": "application/json", "content-type": "application/strategic-merge-patch+json"}

_log = log("scheduler")


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind a pod to a node."""

    waiter: Waiter
    pod: Pod
    node: str
    interfaces: str = ""  # value of the annotation; empty: no annotation


@dataclass(frozen=True, slots=True)
class Explain:
    """Write the reason why a pod is unschedulable."""

    key: str
    uid: str
    reason: str
    message: str


class SchedulerWrites:
    """The workers. `bound` or `failed` is called with each binding."""

    def __init__(
        self, client: Client, state: SchedulerState, bound: Callable[[Bind], None], failed: Callable[[Bind], None]
    ) -> None:
        self._client = client
        self._state = state
        self._bound = bound
        self._failed = failed
        # Bounded: decisions far ahead of the writes would rest on assumptions that may all fail.
        self._jobs: asyncio.Queue[Bind | Explain] = asyncio.Queue(WAITING)

    async def put(self, job: Bind | Explain) -> None:
        """Queue a write; wait while the queue is full."""
        if self._jobs.full():
            await self._jobs.put(job)
        else:
            self._jobs.put_nowait(job)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _work(self) -> NoReturn:
        while True:
            job = await self._jobs.get()
            if isinstance(job, Bind):
                await self._bind(job)
            else:
                await self._explain(job)

    async def _bind(self, job: Bind) -> None:
        pod = job.pod
        try:
            # Claims first: a bound pod whose claim has no selected node could never start.
            for claim in job.waiter.claims:
                await self._state.disks.place(pod.namespace, claim, job.node)
            path = PODS.path(pod.namespace, pod.name, "binding")
            await self._client.call("POST", path, body=_binding(job))
        except NotLeader:
            raise
        except (ApiError, ClientError) as error:
            _log.debug("pod binding failed, will retry", pod=job.waiter.key, node=job.node, why=str(error))
            self._failed(job)
        else:
            self._bound(job)

    async def _explain(self, job: Explain) -> None:
        """Write the condition if it differs. Its transition time changes only with its status."""
        item = self._state.pods.cache.item(job.key)
        if item is None:
            return
        pod = partial_pod(item.raw)
        known, notes = find(pod.status.conditions, "PodScheduled"), _notes(pod, job.reason)
        if known is not None and (known.reason, known.message) == (UNSCHEDULABLE, job.message) and not notes:
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": UNSCHEDULABLE, "message": job.message}
        if known is None or known.status != "False":
            condition["lastTransitionTime"] = rfc3339(self._client.clock.now())
        namespace, _, name = job.key.partition("/")
        # With the uid: a new pod of the name must not get this reason.
        patch = {"metadata": {"uid": job.uid, **notes}, "status": {"conditions": [condition]}}
        try:
            await self._client.call(
                "PATCH", PODS.path(namespace, name, "status"), body=encode(patch), headers=_STRATEGIC
            )
        except NotLeader:
            raise
        except (ApiError, ClientError) as error:
            _log.debug("unschedulable condition cannot be written", pod=job.key, why=str(error))


def _notes(pod: PartialPod, reason: str) -> JsonObject:
    """Return the annotation from which the Pod's Instance reads the reason; empty when it is present or not needed."""
    is_instance = LABEL_DEPLOYMENT_UID in (pod.metadata.labels or {})
    if not is_instance or (pod.metadata.annotations or {}).get(ANNOTATION_UNSCHEDULABLE) == reason:
        return {}
    return {"annotations": {ANNOTATION_UNSCHEDULABLE: reason}}


def _binding(job: Bind) -> bytes:
    """Return the encoded Binding. Names and uids need no escaping: the server has validated them."""
    pod, annotations = job.pod, ""
    if job.interfaces:
        annotations = f',"annotations":{{"{ANNOTATION_INTERFACES}":{encode(job.interfaces).decode()}}}'
    return (
        f'{{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"{pod.name}","namespace":"{pod.namespace}",'
        f'"uid":"{pod.uid}"{annotations}}},"target":{{"apiVersion":"v1","kind":"Node","name":"{job.node}"}}}}'
    ).encode()
