"""`events.k8s.io/v1` as a second view of core Events.

Only the core form is stored; a view translates objects on their way in and out. The two forms have different names for
the same fields (`involvedObject` is `regarding`, `message` is `note`), and the old counters live on under `deprecated…`
names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tarmac.api.schema import JsonObject

# core name -> events.k8s.io name, for every field whose name differs
_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_REVERSED = {theirs: ours for ours, theirs in _NAMES.items()}


_ALWAYS_SHOWN = ("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp")
_ALWAYS_STORED: JsonObject = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}


class View(Protocol):
    """Translates between the shown and the stored form of an object.

    Neither method keeps its argument, or changes it below the top level.
    """

    # field selectors: name in the shown form -> name in the stored form
    selectable: Mapping[str, str]

    def shown(self, stored: JsonObject) -> JsonObject:
        """Convert the stored form to the form that this resource shows."""
        ...

    def stored(self, shown: JsonObject) -> JsonObject:
        """Convert the shown form to the stored form."""
        ...


_REGARDED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


class EventView:
    """Core Events shown as `events.k8s.io/v1`."""

    selectable: Mapping[str, str] = {
        "type": "type",
        "reason": "reason",
        "reportingController": "reportingComponent",
        **{f"regarding.{field}": f"involvedObject.{field}" for field in _REGARDED},
    }

    def shown(self, stored: JsonObject) -> JsonObject:
        """Convert to `events.k8s.io/v1`: old counters are always present, an empty reporter never is."""
        event = {_NAMES.get(field, field): value for field, value in stored.items()}
        event["kind"], event["apiVersion"] = "Event", "events.k8s.io/v1"
        for field in _ALWAYS_SHOWN:
            event.setdefault(field, None)
        event.setdefault("deprecatedSource", {})
        for field in ("reportingController", "reportingInstance"):
            if not event.get(field):
                event.pop(field, None)
        return event

    def stored(self, shown: JsonObject) -> JsonObject:
        """Convert to core `v1`, where an unknown reporter is an empty string."""
        event = {_REVERSED.get(field, field): value for field, value in shown.items()}
        event["kind"], event["apiVersion"] = "Event", "v1"
        return _ALWAYS_STORED | event
