"""Rules for rollouts across cities, which must hold under all faults.

A city is judged by all past reports of its deployment, not only the present one: nodes die after a wave has been
allowed, and the controller acts on the last report it received.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.names import LABEL_CITY_CODE, LABEL_WORKLOAD_UID
from tarmac.api.declare import decoder
from tarmac.api.networking.names import GROUP as NETWORKING
from tarmac.api.networking.names import TOPOLOGY_CITY_CODE
from tarmac.api.schema import JsonObject
from tarmac.decide.rollout import template_hash
from tarmac.sim.checker.replay import DEPLOYMENTS, WORKLOADS, Mirror, ObjectChange
from tarmac.sim.checker.rules import ON_ITS_WAY, STALE, labels

LOCATIONS = f"{NETWORKING}/locations"
_template = decoder(InstanceTemplate)


@lru_cache(maxsize=4096)
def _hash_of(encoded: bytes) -> str:
    return template_hash(_template(encoded))


def revision_in(obj: JsonObject | None) -> str:
    """Return the hash of a Workload's or a deployment's template."""
    template = obj["spec"].get("template") if obj is not None else None
    return _hash_of(msgspec.json.encode(template)) if template is not None else ""


class WavesHold:
    """A new revision goes to no more cities at once than the next wave has, and to none after it has failed."""

    name = "waves-hold"

    def __init__(self) -> None:
        self._had: dict[str, set[str]] = {}  # by deployment uid: its revisions so far
        self._complete: dict[str, set[str]] = {}  # by deployment uid: the revisions it was complete with
        self._served: dict[str, float] = {}  # by city: the time of its last return
        # the time at which a Workload's revision was reported as failed
        self._failed: dict[tuple[str, str], float] = {}

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Record each report; check each deployment that gets another template."""
        if change.bucket == LOCATIONS and change.new is not None:
            self._note_location(mirror, change)
        elif change.bucket == WORKLOADS and change.new is not None:
            self._note_failure(change.time, change.new)
        elif change.bucket == DEPLOYMENTS and change.new is not None:
            uid, revision = change.new["metadata"]["uid"], revision_in(change.new)
            if change.old is not None and revision_in(change.old) != revision:
                yield from self._judge(mirror, change, uid, revision)
            self._had.setdefault(uid, set()).add(revision)
            if _reports_complete(change.new):
                self._complete.setdefault(uid, set()).add(revision)

    def _note_location(self, mirror: Mirror, change: ObjectChange) -> None:
        assert change.new is not None
        city = change.new["spec"]["topology"].get(TOPOLOGY_CITY_CODE, "")
        if _is_ready(change.new) and (change.old is None or not _is_ready(change.old)):
            self._served[city] = change.time

    def _note_failure(self, time: float, workload: JsonObject) -> None:
        status = workload.get("status") or {}
        rollout = status.get("rollout") or {}
        uid = workload["metadata"]["uid"]
        if rollout.get("failure"):
            self._failed.setdefault((uid, status["revision"]), time)
        else:  # a new revision, perhaps with the same template
            self._failed.pop((uid, status.get("revision", "")), None)

    def _judge(self, mirror: Mirror, change: ObjectChange, uid: str, revision: str) -> Iterator[str]:
        assert change.new is not None
        owner = labels(change.new).get(LABEL_WORKLOAD_UID, "")
        workload = next((each for each in mirror.bucket(WORKLOADS).values() if each["metadata"]["uid"] == owner), None)
        returns = revision in self._had.get(uid, ())
        if workload is None or returns or revision_in(workload) != revision or _goes_at_once(workload, revision):
            return
        failed = self._failed.get((owner, revision))
        if failed is not None and change.time - failed > ON_ITS_WAY:
            yield f"{change.key} gets revision {revision}, which failed {change.time - failed:.0f} s ago"
        wanted = {city for placement in workload["spec"]["placements"] for city in placement.get("cityCodes") or ()}
        siblings = [each for each in mirror.bucket(DEPLOYMENTS).values() if _is_of(each, owner, revision)]
        siblings = [each for each in siblings if labels(each)[LABEL_CITY_CODE] in wanted]  # the rest is being removed
        proven = [each for each in siblings if revision in self._complete.get(each["metadata"]["uid"], ())]
        unproven = [each for each in siblings if each not in proven and self._counts(mirror, each, change.time)]
        if len(unproven) > len(proven) + 1:
            cities = ", ".join(sorted(labels(each)[LABEL_CITY_CODE] for each in unproven))
            yield f"{change.key} gets {revision}: {cities} have it, and only {len(proven)} were ever complete with it"

    def _counts(self, mirror: Mirror, deployment: JsonObject, now: float) -> bool:
        """Return True if the city is available, and has been for longer than a controller may be behind."""
        city = labels(deployment)[LABEL_CITY_CODE]
        here = [each for each in mirror.bucket(LOCATIONS).values() if _is_ready(each) and _city(each) == city]
        return bool(here) and now - self._served.get(city, 0.0) > STALE


def _goes_at_once(workload: JsonObject, revision: str) -> bool:
    if (workload["spec"].get("rollout") or {}).get("waves") == "AllAtOnce":
        return True
    known = (workload.get("status") or {}).get("revisions") or ()
    return any(each["templateHash"] == revision and each.get("completed") for each in known)


def _is_of(deployment: JsonObject, owner: str, revision: str) -> bool:
    return labels(deployment).get(LABEL_WORKLOAD_UID) == owner and revision_in(deployment) == revision


def _reports_complete(deployment: JsonObject) -> bool:
    status = deployment.get("status") or {}
    if status.get("observedGeneration") != deployment["metadata"].get("generation"):
        return False
    return any((each["type"], each["status"]) == ("Ready", "True") for each in status.get("conditions") or ())


def _is_ready(location: JsonObject) -> bool:
    conditions = (location.get("status") or {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def _city(location: JsonObject) -> str:
    return location["spec"]["topology"].get(TOPOLOGY_CITY_CODE, "")
