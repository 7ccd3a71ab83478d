"""Validation of probes, lifecycle hooks and their handlers."""

from __future__ import annotations

import re

from tarmac.api import checks
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_SECONDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER = re.compile(r"[-A-Za-z0-9]+", re.ASCII)
_HEADER_MESSAGE = (
    "a valid HTTP header must consist of alphanumeric characters or '-' "
    "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
)


def validate_lifecycle_and_probes(container: JsonObject, path: str, grace: int | None, errors: FieldErrors) -> None:
    """Check all hooks and probes of a container that may have them."""
    if lifecycle := container.get("lifecycle"):
        for hook in ("postStart", "preStop"):
            if (handler := lifecycle.get(hook)) is not None:
                _validate_handler(handler, _HOOK_HANDLERS, f"{path}.lifecycle.{hook}", grace, errors)
    if (probe := container.get("livenessProbe")) is not None:
        _validate_restarting_probe(probe, f"{path}.livenessProbe", grace, errors)
    if (probe := container.get("readinessProbe")) is not None:
        _validate_probe(probe, f"{path}.readinessProbe", grace, errors)
        if (seconds := probe.get("terminationGracePeriodSeconds")) is not None:
            errors.invalid(
                f"{path}.readinessProbe.terminationGracePeriodSeconds",
                seconds,
                "must not be set for readinessProbes",
            )
    if (probe := container.get("startupProbe")) is not None:
        _validate_restarting_probe(probe, f"{path}.startupProbe", grace, errors)


def _validate_restarting_probe(probe: JsonObject, path: str, grace: int | None, errors: FieldErrors) -> None:
    _validate_probe(probe, path, grace, errors)
    threshold = probe.get("successThreshold", 0)
    if threshold != 1:
        errors.invalid(f"{path}.successThreshold", threshold, "must be 1")


def _validate_probe(probe: JsonObject, path: str, grace: int | None, errors: FieldErrors) -> None:
    _validate_handler(probe, _PROBE_HANDLERS, path, grace, errors)
    for field in _SECONDS:
        if probe.get(field, 0) < 0:
            errors.invalid(f"{path}.{field}", probe[field], checks.NOT_NEGATIVE)
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        errors.invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0")


def _validate_handler(
    handler: JsonObject, kinds: tuple[str, ...], path: str, grace: int | None, errors: FieldErrors
) -> None:
    chosen = False
    for kind in kinds:
        action = handler.get(kind)
        if action is None:
            continue
        if chosen:
            errors.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
            continue
        chosen = True
        if kind == "httpGet":
            _validate_http(action, f"{path}.httpGet", errors)
        elif kind == "exec":
            if not action.get("command"):
                errors.required(f"{path}.exec.command")
        elif kind == "sleep":
            _validate_sleep(action.get("seconds", 0), grace, f"{path}.sleep", errors)
        else:
            checks.port_number_or_name(action.get("port", 0), f"{path}.{kind}.port", errors)
    if not chosen:
        errors.required(path, "must specify a handler type")


def _validate_sleep(seconds: int, grace: int | None, path: str, errors: FieldErrors) -> None:
    if grace is not None and not 0 <= seconds <= grace:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        errors.invalid(path, seconds, detail)


def _validate_http(http: JsonObject, path: str, errors: FieldErrors) -> None:
    if not http.get("path"):
        errors.required(f"{path}.path")
    checks.port_number_or_name(http.get("port", 0), f"{path}.port", errors)
    if http.get("scheme") not in ("HTTP", "HTTPS"):
        errors.not_supported(f"{path}.scheme", http.get("scheme", ""), ("HTTP", "HTTPS"))
    for header in http.get("httpHeaders") or ():
        name = header.get("name", "")
        if not _HEADER.fullmatch(name):
            errors.invalid(f"{path}.httpHeaders", name, _HEADER_MESSAGE)
