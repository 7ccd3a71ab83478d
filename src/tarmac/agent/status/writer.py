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

import msgspec

from tarmac.agent.model.pod import AgentPod
from tarmac.agent.status.podconditions import OURS
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

_MERGED = ("podIPs", "hostIPs", "resources")
"""Lists and maps that the server would merge by key: the patch replaces them."""
_OPTIONAL = (
    "reason",
    "message",
    "podIP",
    "podIPs",
    "ephemeralContainerStatuses",
    "initContainerStatuses",
    "resize",
    "resources",
)
"""Fields that the node may remove."""

_LISTS: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_encode = msgspec.json.Encoder(order="sorted").encode


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
                # A different client has changed the status: the next patch must restore what this node reports.
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
            # Set before the task begins: a second `submit` in this turn of the loop would begin another writer.
            report.writing = True
            self._tasks.begin(self._write(report), f"status of {report.pod.key}")

    async def _write(self, report: _Report) -> None:
        backoff = Backoff(self._client.randomness, FIRST_RETRY, MAX_RETRY)
        try:
            # One request at a time for each pod: two in flight could arrive in the other order, and the older status
            # stay.
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
            # After the last status: the deletion removes the object that the status is written to.
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
        annotations: dict[str, str | None] = {
            **report.notes,
            **({CLASSES_ANNOTATION: noted(wanted)} if self._pruned else {}),
        }
        if notes := {name: text for name, text in annotations.items() if pod.annotations.get(name) != text}:
            patch["metadata"] = {"annotations": notes}
        if patch:
            # With the uid: a new pod may have the name by now and must not get this status.
            answer = await self._pods.patch(
                pod.name, patch, pod.namespace, type="strategic", subresource="status", uid=pod.uid
            )
            self.writes += 1
            # From the response, not from the watch, which lags: a second patch against the old base would undo this
            # one.
            report.pod = AgentPod({**pod.raw, "metadata": answer["metadata"]})
            report.base = answer.get("status") or {}
            report.version = answer["metadata"]["resourceVersion"]
            if not self._pruned and classes_in(wanted) and not classes_in(report.base):
                self._pruned = True
                return  # not counted as sent: sent again with the annotation
        report.sent = wanted


def difference(before: JsonObject, after: JsonObject) -> JsonObject:
    """Return the patch from `before` to `after`; empty if they are equal."""
    patch: JsonObject = {}
    for name, value in after.items():
        if name == "conditions":
            if conditions := _conditions(before.get(name) or [], value):
                patch[name] = conditions
        elif before.get(name) != value:
            patch[name] = _whole(value, before.get(name)) if name in _MERGED else value
    patch |= {name: None for name in _OPTIONAL if name in before and name not in after}
    return patch


def _whole(value: JsonObject | list[JsonObject], before: object) -> JsonObject | list[JsonObject]:
    if isinstance(value, list):
        return [{"$patch": "replace"}, *value]
    return {"$patch": "replace", **value} if before else value


def _conditions(before: list[JsonObject], after: list[JsonObject]) -> list[JsonObject]:
    """Return changed conditions only. A removed field is sent as null, since the server would keep it otherwise."""
    known = {each["type"]: each for each in before}
    changed: list[JsonObject] = []
    for condition in after:
        old = known.pop(condition["type"], None)
        if old is None:
            changed.append(condition)
        elif any(old.get(field) != value for field, value in condition.items()) or _dropped(old, condition):
            changed.append({**condition, **dict.fromkeys(_dropped(old, condition))})
    changed += [{"$patch": "delete", "type": kind} for kind in known if kind in OURS]
    return changed


def _dropped(old: JsonObject, new: JsonObject) -> list[str]:
    return [field for field in ("reason", "message") if old.get(field) and field not in new]


# Moves QoS classes of a pod's status into an annotation, for servers that prune the fields.
#
# `agent.node.reporter` does the same for the Node. The annotation is `node.tarmac/classes`:
# `{"pod":{},"containers":{"main":{"blockio":"slow"}}}`.


def classes_in(status: JsonObject) -> JsonObject:
    """Return the classes in a status: those of the pod, and of each container that has any."""
    every = [each for name in _LISTS for each in status.get(name) or ()]
    containers = {each["name"]: found for each in every if (found := _classes(each))}
    pod = _classes(status)
    return {"pod": pod, "containers": containers} if pod or containers else {}


def without_classes(status: JsonObject) -> JsonObject:
    """Return the status without classes, as a Kubernetes server stores it."""
    found = {name: value for name, value in status.items() if name != "resources"}
    for name in _LISTS:
        if name in found:
            found[name] = [_plain(each) for each in found[name]]
    return found


def noted(status: JsonObject) -> str | None:
    """Return the text of the annotation; None if there are no classes."""
    stated = classes_in(status)
    return _encode(stated).decode() if stated else None


def _classes(holder: JsonObject) -> JsonObject:
    return (holder.get("resources") or {}).get("classes") or {}


def _plain(status: JsonObject) -> JsonObject:
    if not _classes(status):
        return status
    return {**status, "resources": {name: each for name, each in status["resources"].items() if name != "classes"}}
