"""CronJob."""

from __future__ import annotations

import re
import zoneinfo
from functools import lru_cache
from typing import Final

from tarmac.api import checks
from tarmac.api.kubernetes.apps.strategy import ControllerStrategy
from tarmac.api.kubernetes.apps.templates import validate_counts
from tarmac.api.kubernetes.batch.jobs import default_job_template, validate_job_spec
from tarmac.api.kubernetes.batch.schedules import schedule_error
from tarmac.api.kubernetes.core.pods.warnings import template_warnings
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_POLICIES = ("Allow", "Forbid", "Replace")
_MAX_NAME = 52  # the controller adds eleven characters for each Job, and names of Jobs are labels
_TIME_ZONES = "https://www.iana.org/time-zones"
# Names of the database are of this form. Others would become a path below it, and a module to import, part by part.
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,3}", re.ASCII)
_MAX_SHOWN: Final = 256  # characters of an unknown zone in an error


class CronJobStrategy(ControllerStrategy):
    """Jobs on a schedule."""

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("concurrencyPolicy"):
            spec["concurrencyPolicy"] = "Allow"
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        default_job_template(spec.setdefault("jobTemplate", {}))

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        if len(name) > _MAX_NAME:
            errors.invalid("metadata.name", name, f"must be no more than {_MAX_NAME} characters")
        self._validate(spec, errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self._validate(new["spec"], errors)

    def _validate(self, spec: JsonObject, errors: FieldErrors) -> None:
        _validate_schedule(spec.get("schedule", ""), errors)
        _validate_time_zone(spec.get("timeZone"), errors)
        validate_counts(
            spec, ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"), errors
        )
        checks.one_of(spec["concurrencyPolicy"], _POLICIES, "spec.concurrencyPolicy", errors)
        job = spec["jobTemplate"]["spec"]
        validate_job_spec(job, "spec.jobTemplate.spec", errors)
        if job.get("manualSelector"):
            errors.not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        template = obj["spec"]["jobTemplate"]["spec"].get("template") or {}
        return template_warnings(template, "spec.jobTemplate.spec.template") if old is None else []


def _validate_schedule(schedule: str, errors: FieldErrors) -> None:
    if not schedule:
        errors.required("spec.schedule")
    elif "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.invalid("spec.schedule", schedule, detail)
    elif message := schedule_error(schedule):
        errors.invalid("spec.schedule", schedule, message)


def _validate_time_zone(zone: str | None, errors: FieldErrors) -> None:
    if zone is None:
        return
    if not zone:
        errors.invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    elif zone.lower() == "local":
        detail = f"timeZone must be an explicit time zone as defined in {_TIME_ZONES}"
        errors.invalid("spec.timeZone", zone, detail)
    elif not _ZONE.fullmatch(zone) or not _is_time_zone(zone):
        errors.invalid("spec.timeZone", zone, f"unknown time zone {zone[:_MAX_SHOWN]}")


@lru_cache(maxsize=100)
def _is_time_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return True
