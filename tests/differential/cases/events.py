"""Events of both groups, with their counts."""

from __future__ import annotations

from tests.differential.shared import EVENTS, TABLE, meta
from tests.differential.steps import MERGE_PATCH, STRATEGIC_PATCH, Json, create, delete, feature, get, patch, put, watch

_NEW = "/apis/events.k8s.io/v1/namespaces/$ns/events"
_POD = {"kind": "Pod", "apiVersion": "v1", "name": "p", "namespace": "$ns"}


def _event(name: str = "e", **more: Json) -> Json:
    base = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": meta(name),
        "involvedObject": _POD,
        "reason": "Started",
        "message": "Started it",
        "type": "Normal",
        "source": {"component": "tester"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    return {**base, **more}


def _new_event(name: str = "e", **more: Json) -> Json:
    base = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": meta(name),
        "regarding": _POD,
        "reason": "Started",
        "note": "Started it",
        "type": "Normal",
        "action": "Start",
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingController": "example.com/tester",
        "reportingInstance": "tester-1",
    }
    return {**base, **more}


CASES = feature(
    "events",
    are_created=(create(EVENTS, _event()), get(f"{EVENTS}/e")),
    of_the_new_group=(create(_NEW, _new_event()), get(f"{_NEW}/e")),
    of_the_old_group_read_by_the_new=(create(EVENTS, _event()), get(f"{_NEW}/e")),
    of_the_new_group_read_by_the_old=(create(_NEW, _new_event()), get(f"{EVENTS}/e")),
    are_counted=(
        create(EVENTS, _event()),
        patch(STRATEGIC_PATCH, f"{EVENTS}/e", {"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z"}),
    ),
    of_the_new_group_are_counted=(
        create(_NEW, _new_event()),
        patch(MERGE_PATCH, f"{_NEW}/e", {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}),
    ),
    are_created_by_an_update=put(f"{EVENTS}/e", _event()),
    about_another_namespace=create(EVENTS, _event(involvedObject={**_POD, "namespace": "default"})),
    without_a_reason=create(_NEW, _new_event(reason="", action="")),
    of_an_unknown_type=create(_NEW, _new_event(type="Strange")),
    the_reason_cannot_change=(
        create(_NEW, _new_event()),
        patch(MERGE_PATCH, f"{_NEW}/e", {"reason": "Stopped"}),
    ),
    in_a_table=(
        create(EVENTS, _event()),
        get(EVENTS).accepting(TABLE).viewing(lambda body: body["rows"][0]["cells"][1:]),
    ),
    are_watched=(
        create(EVENTS, _event()).keep(rv="metadata.resourceVersion"),
        watch(f"{EVENTS}?resourceVersion=$rv", delete(f"{EVENTS}/e"), create(_NEW, _new_event("f")), events=2),
    ),
)
