"""Event, in its two forms: core/v1, lenient for old reporters, and events.k8s.io/v1, strict.

Both forms share one set of stored objects. Each strategy gets objects with the field names of its own form.
"""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

SELECTABLE = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_MISMATCH = "does not match event.namespace"
_SHORT = 128
_LONG = 1024


class EventStrategy(KubernetesStrategy):
    """core/v1 Event."""

    allow_create_on_update = True
    target_field = "involvedObject"
    reporter_field = "reportingComponent"
    note_field = "message"

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        namespace = obj["metadata"].get("namespace", "")
        target = checks.mapping(obj, self.target_field).get("namespace", "")
        if not obj.get("eventTime"):
            if target != namespace and (target or namespace not in ("", "default")):
                errors.invalid("involvedObject.namespace", target, _MISMATCH)
            return
        if not target and namespace not in ("default", "kube-system"):
            errors.invalid("involvedObject.namespace", target, _MISMATCH)
        self._validate_reporter(obj, errors)

    def _validate_reporter(self, obj: JsonObject, errors: FieldErrors) -> None:
        reporter = obj.get(self.reporter_field, "")
        if not reporter:
            errors.required(self.reporter_field)
        checks.qualified_name(reporter, self.reporter_field, errors)
        for field in ("reportingInstance", "action", "reason"):
            value = obj.get(field, "")
            if not value:
                errors.required(field)
            if len(value) > _SHORT:
                errors.invalid(field, "", f"can have at most {_SHORT} characters")
        if len(obj.get(self.note_field, "")) > _LONG:
            errors.invalid("message", "", f"can have at most {_LONG} characters")

    def selectable_fields(self, obj: JsonObject) -> dict[str, str]:
        target = checks.mapping(obj, self.target_field)
        reporter = obj.get(self.reporter_field) or ""
        source = checks.mapping(obj, "source" if self.target_field == "involvedObject" else "deprecatedSource")
        values = {name: target.get(name.removeprefix("involvedObject."), "") for name in SELECTABLE[:7]}
        values["reason"] = obj.get("reason", "")
        values["reportingComponent"] = reporter
        values["source"] = source.get("component") or reporter
        values["type"] = obj.get("type", "")
        return values


class NewEventStrategy(EventStrategy):
    """events.k8s.io/v1 Event: complete on create, and only its series may change afterwards."""

    target_field = "regarding"
    reporter_field = "reportingController"
    note_field = "note"
    # field here -> field that Kubernetes reports
    _fixed = (
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    )

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        super().validate(obj, errors)
        _validate_series(obj, errors)
        if not obj.get("eventTime"):
            errors.required("eventTime")
        if obj.get("type") not in ("Normal", "Warning"):
            errors.invalid("type", "", f"has invalid value: {obj.get('type', '')}")
        for field, shown in self._fixed[3:7]:
            if obj.get(field):
                errors.invalid(shown, "", "needs to be unset")

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        EventStrategy.validate(self, new, errors)
        if new.get("series") != old.get("series"):
            _validate_series(new, errors)
        for field, shown in self._fixed:
            if (new.get(field) or None) != (old.get(field) or None):
                errors.invalid(shown, new.get(field), checks.IMMUTABLE)


def _validate_series(event: JsonObject, errors: FieldErrors) -> None:
    series = event.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        errors.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        errors.required("series.lastObservedTime")
