"""The requests of a claim: `spec.devices` of ResourceClaims and of their templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from tarmac.api import checks
from tarmac.api.kubernetes.devices.devicenames import (
    MAX_REQUESTS,
    configuration,
    each,
    full_attribute_name,
    name_of,
    selector,
    unique,
)
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

MAX_ALTERNATIVES: Final = 8
_EXACT, _ALL = "ExactCount", "All"
_ONE: Final = "exactly one of `exactly` or `firstAvailable` is required"
_REFERENCE: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_ADMIN: Final = "admin access to devices is not offered"
# of features that are alpha in Kubernetes 1.35
_DROPPED: Final = ("capacity", "tolerations")

Names = Mapping[str, frozenset[str]]
"""Requests by name, each with the names of its alternatives."""


def default_devices(spec: JsonObject) -> None:
    """Fill in the mode and number of each request."""
    for request in _parts(spec):
        if not request.get("allocationMode"):
            request["allocationMode"] = _EXACT
        if request["allocationMode"] == _EXACT and not request.get("count"):
            request["count"] = 1


def drop_disabled(spec: JsonObject) -> None:
    """Drop fields of features that are off by default in Kubernetes."""
    for request in _parts(spec):
        for field in _DROPPED:
            request.pop(field, None)
    for constraint in checks.objects(spec, "devices", "constraints"):
        constraint.pop("distinctAttribute", None)


def _parts(spec: JsonObject) -> Iterator[JsonObject]:
    for request in checks.objects(spec, "devices", "requests"):
        if request.get("exactly") is not None:
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()


def names_of(spec: JsonObject) -> Names:
    """Return the names by which other parts of the claim refer to its requests."""
    return {
        name_of(request): frozenset(map(name_of, request.get("firstAvailable") or ()))
        for request in checks.objects(spec, "devices", "requests")
    }


def validate_devices(spec: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check `devices` of a claim's spec."""
    devices, path, known = checks.mapping(spec, "devices"), f"{path}.devices", names_of(spec)
    unique(devices.get("requests") or (), MAX_REQUESTS, _validate_request, name_of, f"{path}.requests", errors)
    constraint = partial(_validate_constraint, known)
    each(devices.get("constraints") or (), MAX_REQUESTS, constraint, f"{path}.constraints", errors)
    configured = partial(_validate_configuration, known)
    each(devices.get("config") or (), MAX_REQUESTS, configured, f"{path}.config", errors)


def _validate_request(request: JsonObject, path: str, errors: FieldErrors) -> None:
    checks.dns_label(name_of(request), f"{path}.name", errors)
    exactly, first = request.get("exactly"), request.get("firstAvailable") or ()
    if exactly is not None and first:
        errors.invalid(path, None, f"{_ONE}, but multiple fields are set")
    elif first:
        unique(first, MAX_ALTERNATIVES, _validate_alternative, name_of, f"{path}.firstAvailable", errors)
    elif exactly is not None:
        _validate_exact(exactly, f"{path}.exactly", errors)
        if exactly.get("adminAccess"):
            errors.forbidden(f"{path}.exactly.adminAccess", _ADMIN)
    else:
        errors.required(path, _ONE)


def _validate_alternative(request: JsonObject, path: str, errors: FieldErrors) -> None:
    checks.dns_label(name_of(request), f"{path}.name", errors)
    _validate_exact(request, path, errors)


def _validate_exact(request: JsonObject, path: str, errors: FieldErrors) -> None:
    if name := request.get("deviceClassName"):
        checks.dns_subdomain(name, f"{path}.deviceClassName", errors)
    else:
        errors.required(f"{path}.deviceClassName")
    each(request.get("selectors") or (), MAX_REQUESTS, selector, f"{path}.selectors", errors)
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode not in (_EXACT, _ALL):
        errors.not_supported(f"{path}.allocationMode", mode, (_ALL, _EXACT))
    elif mode == _ALL and count:
        errors.invalid(f"{path}.count", count, f"must not be specified when allocationMode is '{_ALL}'")
    elif mode == _EXACT and count <= 0:
        errors.invalid(f"{path}.count", count, "must be greater than zero")


def _validate_constraint(known: Names, constraint: JsonObject, path: str, errors: FieldErrors) -> None:
    validate_references(known, constraint, path, errors)
    attribute = constraint.get("matchAttribute")
    if attribute is None:
        errors.required(f"{path}.matchAttribute")
    else:
        full_attribute_name(attribute, f"{path}.matchAttribute", errors)


def _validate_configuration(known: Names, item: JsonObject, path: str, errors: FieldErrors) -> None:
    validate_references(known, item, path, errors)
    configuration(item, path, errors)


def validate_references(known: Names, item: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check the list `requests` of a part that refers to them by name."""
    check = partial(validate_reference, known)
    unique(item.get("requests") or (), MAX_REQUESTS, check, str, f"{path}.requests", errors)


def validate_reference(known: Names, name: str, path: str, errors: FieldErrors) -> None:
    """Check the name of a request, `request` or `request/alternative`."""
    request, *rest = name.split("/")
    if len(rest) > 1:
        errors.invalid(path, name, _REFERENCE)
        return
    for part in (request, *rest):
        checks.dns_label(part, path, errors)
    if request not in known or not known[request].issuperset(rest):
        errors.invalid(path, name, _REFERENCE)
