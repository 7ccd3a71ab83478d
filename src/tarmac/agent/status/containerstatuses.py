"""The statuses of a pod's containers, with kubelet's reasons and messages.

A container's state comes from the newest runtime container of its name, its last state from the one before. A container
that could not be started is waiting, with the reason. A container that ran and is missing in the runtime has terminated
with an unknown exit code.
"""

from __future__ import annotations

from tarmac.agent.model.pod import is_sidecar, restarts_after
from tarmac.agent.status.statusinputs import StatusFacts
from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339
from tarmac.runtimes.interface import RuntimeContainer

MAX_MESSAGE_BYTES = 12 * 1024
LOST_REASON = "ContainerStatusUnknown"
_LOST_AND_RESTARTED = "The container could not be located when the pod was deleted.  The container used to be Running"
_LOST_AT_THE_END = "The container could not be located when the pod was terminated"


def container_statuses(facts: StatusFacts, field: str) -> list[JsonObject]:
    """Return one list of statuses: `containers`, `initContainers` or `ephemeralContainers`."""
    specs: list[JsonObject] = facts.pod.spec.get(field) or []
    before = {each["name"]: each for each in facts.old.get(_STATUS_FIELD[field]) or ()}
    found = [_Status(facts, spec, before.get(spec["name"]), field).build() for spec in specs]
    return found if field == "initContainers" else sorted(found, key=lambda each: each["name"])


_STATUS_FIELD = {
    "containers": "containerStatuses",
    "initContainers": "initContainerStatuses",
    "ephemeralContainers": "ephemeralContainerStatuses",
}


def lost_at_the_end() -> JsonObject:
    """Return the state of a container that should have ended and is missing in the runtime."""
    return {"terminated": {"exitCode": 137, "reason": LOST_REASON, "message": _LOST_AT_THE_END}}


class _Status:
    """Builds one container's status."""

    def __init__(self, facts: StatusFacts, spec: JsonObject, old: JsonObject | None, field: str) -> None:
        self._facts = facts
        self._spec = spec
        self._name: str = spec["name"]
        self._old = old
        self._init = field == "initContainers"
        self._ephemeral = field == "ephemeralContainers"
        attempts = [each for each in facts.seen.containers if each.name == self._name]
        self._newest = attempts[0] if attempts else None
        self._previous = next((each for each in attempts[1:] if each.state == "exited"), None)

    def build(self) -> JsonObject:
        status = self._missing() if self._newest is None else self._known(self._newest)
        self._wait(status)
        if not self._ephemeral:
            self._health(status)
        return status

    def _missing(self) -> JsonObject:
        """Return the status of a container that the runtime does not have."""
        old = self._old
        # A finished container may be gone from the runtime: its exit code stays as it was reported.
        if old is not None and "terminated" in (old.get("state") or {}):
            return {**old}
        status: JsonObject = {
            "name": self._name,
            "image": self._spec["image"],
            "imageID": "",
            "state": {"waiting": {"reason": self._default_reason}},
            "lastState": (old or {}).get("lastState") or {},
            "restartCount": (old or {}).get("restartCount") or 0,
            "ready": False,
            **self._mounts(),
        }
        if old is not None and "running" in (old.get("state") or {}) and not status["lastState"]:
            terminated = {"exitCode": 137, "reason": LOST_REASON, "message": _LOST_AND_RESTARTED}
            status["lastState"] = {"terminated": terminated}
            status["restartCount"] += 0 if self._facts.pod.deleted else 1
        return status

    def _known(self, newest: RuntimeContainer) -> JsonObject:
        status: JsonObject = {
            "name": self._name,
            "image": newest.image or self._spec["image"],
            "imageID": newest.image_id,
            "containerID": self._id(newest),
            "state": self._state(newest),
            "lastState": self._state(self._previous) if self._previous else (self._old or {}).get("lastState") or {},
            "restartCount": newest.attempt,
            "ready": False,
            **self._mounts(),
            **self._resources(newest),
        }
        if newest.user is not None:
            uid, gid, groups = newest.user
            status["user"] = {"linux": {"uid": uid, "gid": gid, "supplementalGroups": list(groups)}}
        return status

    def _state(self, container: RuntimeContainer) -> JsonObject:
        if container.state == "running":
            return {"running": {"startedAt": rfc3339(container.started_at)}}
        if container.state == "exited":
            # 12 KiB for all containers of a pod together, as with kubelet: an object in the API is limited in size.
            limit = MAX_MESSAGE_BYTES // max(1, sum(1 for _ in self._facts.pod.every_container()))
            terminated = {
                "exitCode": container.exit_code,
                "reason": container.reason,
                "message": container.message[:limit],
                "startedAt": rfc3339(container.started_at),
                "finishedAt": rfc3339(container.finished_at),
                "containerID": self._id(container),
            }
            return {"terminated": {name: value for name, value in terminated.items() if value != ""}}
        if container.state == "unknown" and "running" in ((self._old or {}).get("state") or {}):
            return lost_at_the_end()
        return {"waiting": {}}

    def _wait(self, status: JsonObject) -> None:
        """Set the waiting state of a container that could not be started."""
        why = self._facts.waiting.get(self._name)
        if why is None or not self._comes_back():
            return
        if "terminated" in status["state"]:
            status["lastState"] = status["state"]
        reason, message = why
        status["state"] = {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}

    def _comes_back(self) -> bool:
        newest = self._newest
        if self._facts.pod.deleted or (newest is not None and newest.state == "running"):
            return False
        if newest is None or newest.state != "exited":
            return True
        if self._init and newest.exit_code == 0 and not is_sidecar(self._spec):
            return False
        return restarts_after(self._facts.pod, self._spec, newest.exit_code)

    def _health(self, status: JsonObject) -> None:
        state = status["state"]
        runs = "running" in state
        identity = self._newest.id if self._newest else ""
        still = self._newest is not None and self._newest.stands_still
        started = runs and self._facts.started.get(identity, "startupProbe" not in self._spec)
        status["started"] = started
        if self._init and not is_sidecar(self._spec):
            status["ready"] = state.get("terminated", {}).get("exitCode") == 0
        else:
            ready = self._facts.ready.get(identity, "readinessProbe" not in self._spec)
            status["ready"] = started and ready and not still

    def _resources(self, newest: RuntimeContainer) -> JsonObject:
        """Return allocated and actual resources: those the node has allocated, and those applied to the container."""
        allocated: JsonObject = self._spec.get("resources") or {}
        shown = self._facts.applied.get(self._name, allocated) if newest.state == "running" else allocated
        sides = {side: shown[side] for side in ("limits", "requests") if shown.get(side)}
        classes = self._facts.classes.containers.get(self._name) if newest.state == "running" else None
        found: JsonObject = {"resources": {**sides, **({"classes": {**classes}} if classes else {})}}
        if not self._init:  # as kubelet: the devices of an init container may be in use by the next container
            found |= self._facts.given.get(self._name, {})
        if allocated.get("requests"):
            found["allocatedResources"] = allocated["requests"]
        return found

    def _mounts(self) -> JsonObject:
        stated = self._spec.get("volumeMounts") or ()
        if not stated:
            return {}
        return {"volumeMounts": [_mount(each) for each in stated]}

    def _id(self, container: RuntimeContainer) -> str:
        return f"{self._facts.runtime}://{container.id}"

    @property
    def _default_reason(self) -> str:
        return "PodInitializing" if self._facts.pod.init_containers else "ContainerCreating"


def _mount(stated: JsonObject) -> JsonObject:
    found: JsonObject = {"name": stated["name"], "mountPath": stated["mountPath"]}
    if stated.get("readOnly"):
        asked = stated.get("recursiveReadOnly") or "Disabled"
        found |= {"readOnly": True, "recursiveReadOnly": "Enabled" if asked == "Enabled" else "Disabled"}
    return found
