"""Writes pod statuses to the API: the newest of each pod, one request at a time per pod, with retries.

A status submitted during a request replaces any queued one. While the server is unreachable the newest status is kept
and sent later: reporting never blocks the pod. A finished pod is deleted from the API right after its last status was
accepted, and only if its uid still matches. A request about a removed pod is allowed to complete: cancelling it would
close its connection, and the next pod would wait for a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tarmac.agent.model.pod import AgentPod
from tarmac.agent.status.patches import difference
from tarmac.agent.status.pruning import classes_in, noted, without_classes
from tarmac.api.kubernetes.core.nodeclasses import CLASSES_ANNOTATION
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, Conflict, NotFound, TooManyRequests
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.client.backoff import Backoff
from tarmac.client.client import Client
from tarmac.client.envelope import is_newer
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import PODS

FIRST_RETRY = 0.5
MAX_RETRY = 10.0
NO_NOTES: Final[Mapping[str, str]] = {}

_log = log("status")


@dataclass(slots=True)
class _Report:
    """One pod of the API: its current and its wanted status."""

    pod: AgentPod
    version: str
    base: JsonObject
    wanted: JsonObject | None = None
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    sent: JsonObject | None = None
    delete: bool = False
    writing: bool = False


class StatusWriter:
    """Writes the statuses of this node's pods."""

    def __init__(self, client: Client) -> None:
        self.writes = 0
        self._client = client
        self._pods = client.resource(PODS)
        self._reports: dict[str, _Report] = {}
        self._pruned = False  # True if the server prunes unknown fields: classes
        self._early: dict[str, tuple[JsonObject, Mapping[str, str], bool]] = {}
        self._tasks = Tasks()

    def observe(self, pod: AgentPod) -> None:
        """Accept the API's version of a pod as the base of the next patch."""
        version = pod.metadata.get("resourceVersion") or ""
        report = self._reports.get(pod.uid)
        if report is None:
            wanted, notes, delete = self._early.pop(pod.uid, (None, NO_NOTES, False))
            report = self._reports[pod.uid] = _Report(pod, version, pod.status, wanted, notes, delete=delete)
            self._start(report)
        elif version != report.version and (not report.version or is_newer(version, report.version)):
            report.pod, report.version = pod, version
            if pod.status != report.base:
                report.base, report.sent = pod.status, None
                self._start(report)

    def submit(
        self, uid: str, status: JsonObject, notes: Mapping[str, str] = NO_NOTES, *, delete: bool = False
    ) -> None:
        """Queue this status and the annotations `notes` for writing. `delete`: delete the pod afterwards."""
        report = self._reports.get(uid)
        if report is None:  # an adopted pod: the API has not been listed yet
            self._early[uid] = (status, notes, delete)
            return
        report.wanted, report.notes = status, notes
        report.delete = report.delete or delete
        self._start(report)

    def forget(self, uid: str) -> None:
        """Drop a pod that the API no longer has."""
        self._early.pop(uid, None)
        report = self._reports.pop(uid, None)
        if report is not None:
            # A request in flight still has this report: it must not go on with the next status, nor delete a new pod.
            report.wanted, report.delete = None, False

    async def settled(self) -> None:
        """Wait until all queued statuses are written."""
        await self._tasks.settled()

    async def close(self) -> None:
        """Cancel all writes."""
        await self._tasks.close()

    def _start(self, report: _Report) -> None:
        if not report.writing and report.wanted is not None and (report.delete or report.wanted != report.sent):
            report.writing = True
            self._tasks.begin(self._write(report), f"status of {report.pod.key}")

    async def _write(self, report: _Report) -> None:
        backoff = Backoff(self._client.randomness, FIRST_RETRY, MAX_RETRY)
        try:
            while await self._once(report, backoff):
                pass
        finally:
            report.writing = False

    async def _once(self, report: _Report, backoff: Backoff) -> bool:
        """Send one request; return True if there may be more to send."""
        wanted = report.wanted
        try:
            if wanted is not None and wanted != report.sent:
                await self._patch(report, wanted)
                return True
            if report.delete:
                # With the uid: a new pod may have the name by now.
                await self._pods.delete(report.pod.name, report.pod.namespace, grace=0, uid=report.pod.uid)
                report.delete = False
            return False
        except NotFound:
            report.delete = False
            return False
        except ApiError as error:
            # A conflict may be transient. If a new pod has the name now, `forget` ends the retries.
            if 400 <= error.http_code < 500 and not isinstance(error, Conflict | TooManyRequests):
                _log.error("pod status rejected by the server", pod=report.pod.key, error=str(error))
                # `submit` starts no task while this one runs: a status of that time would wait for the next change
                return report.wanted is not None and report.wanted is not wanted
        except ClientError as error:
            _log.debug("pod status cannot be sent, will retry", pod=report.pod.key, error=str(error))
        await self._client.clock.sleep(backoff.next())
        return True

    async def _patch(self, report: _Report, wanted: JsonObject) -> None:
        pod = report.pod
        patch: JsonObject = {}
        if changed := difference(report.base, without_classes(wanted) if self._pruned else wanted):
            patch["status"] = changed
        told: dict[str, str | None] = {**report.notes, **({CLASSES_ANNOTATION: noted(wanted)} if self._pruned else {})}
        if notes := {name: text for name, text in told.items() if pod.annotations.get(name) != text}:
            patch["metadata"] = {"annotations": notes}
        if patch:
            answer = await self._pods.patch(
                pod.name, patch, pod.namespace, type="strategic", subresource="status", uid=pod.uid
            )
            self.writes += 1
            report.pod = AgentPod({**pod.raw, "metadata": answer["metadata"]})
            report.base = answer.get("status") or {}
            report.version = answer["metadata"]["resourceVersion"]
            if not self._pruned and classes_in(wanted) and not classes_in(report.base):
                self._pruned = True
                return  # not counted as sent: sent again with the annotation
        report.sent = wanted
