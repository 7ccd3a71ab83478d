"""BOOKMARK events."""

from __future__ import annotations

from tests.differential.shared import MAPS, PARTIAL, PODS, ROLES, SERVICES, TABLE, WORKLOADS, role, workload
from tests.differential.steps import Json, create, delete, feature, get, watch

_INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
# A bookmark comes shortly before the time limit of a watch.
_ENDING = "allowWatchBookmarks=true&timeoutSeconds=3"
_RV = "metadata.resourceVersion"


def _once(events: Json) -> Json:
    """The real server may send the last bookmark again, a second later."""
    return [event for index, event in enumerate(events) if event not in events[:index]]


CASES = feature(
    "bookmarks",
    of_a_kind_are_bare=watch(f"{PODS}?{_INITIAL}", events=1),
    of_a_workload=watch(f"{WORKLOADS}?{_INITIAL}", events=1),
    of_a_role=watch(f"{ROLES}?{_INITIAL}", events=1),
    in_a_table=watch(f"{SERVICES}?{_INITIAL}", events=1).accepting(TABLE),
    as_metadata=watch(f"{SERVICES}?{_INITIAL}", events=1).accepting(PARTIAL),
    before_the_end=(
        get(ROLES).keep(rv=_RV),
        watch(f"{ROLES}?{_ENDING}&resourceVersion=$rv", create(ROLES, role()), events=9).viewing(_once),
    ),
    before_the_end_of_workloads=(
        create(WORKLOADS, workload()).keep(rv=_RV),
        watch(f"{WORKLOADS}?{_ENDING}&resourceVersion=$rv", delete(f"{WORKLOADS}/a"), events=9).viewing(_once),
    ),
    not_unless_asked_for=(
        get(MAPS).keep(rv=_RV).viewing(lambda _: None),
        watch(f"{MAPS}?timeoutSeconds=1&resourceVersion=$rv&fieldSelector=metadata.name=a", events=9),
    ),
    can_be_resumed_from=(
        watch(f"{ROLES}?{_INITIAL}", events=1).keep(rv="0.object.metadata.resourceVersion"),
        create(ROLES, role()),
        watch(f"{ROLES}?resourceVersion=$rv", events=1),
    ),
)
