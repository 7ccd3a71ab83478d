"""Validation of resources of containers and pods: names, quantities, requests against limits, claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tarmac.api import checks
from tarmac.api.kubernetes.core.pods import classfields, classrules
from tarmac.api.kubernetes.core.pods.podresources import aggregate
from tarmac.api.kubernetes.resourcenames import (
    HUGE_PAGES,
    ZERO,
    container_resource_name,
    is_huge_pages,
    is_overcommittable,
    pod_resource_name,
    quantity,
    resource_quantity,
)
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import Quantity

NameCheck = Callable[[str, str, FieldErrors], None]
_RESIZE_RESOURCES = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")


def validate_container_resources(
    resources: JsonObject, path: str, pod_claims: frozenset[str], errors: FieldErrors
) -> None:
    """Check `resources` of a container."""
    _validate(resources, path, container_resource_name, errors)
    _validate_classes(resources, path, errors)
    if claims := resources.get("claims"):
        _validate_claims(claims, pod_claims, f"{path}.claims", errors)


def validate_pod_resources(spec: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check `spec.resources`, which must cover the containers' requests."""
    resources = spec["resources"]
    if (spec.get("os") or {}).get("name") == "windows":
        errors.forbidden(path, "may not be set for a windows pod")
        return
    if resources.get("claims") is not None:
        errors.forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    _validate(resources, path, pod_resource_name, errors)
    _validate_classes(resources, path, errors)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, total in aggregate(spec, "requests").items():
        if name in requests and total > quantity(requests[name]):
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            errors.invalid(f"{path}.requests[{name}]", requests[name], detail)
    for name, total in aggregate(spec, "limits").items():
        if is_huge_pages(name) and name in limits and total > quantity(limits[name]):
            detail = f"must be greater than or equal to aggregate container limits of {total}"
            errors.invalid(f"{path}.limits[{name}]", limits[name], detail)
    for index, container in enumerate(spec.get("containers") or ()):
        for name, text in checks.mapping(container, "resources", "limits").items():
            if name in limits and quantity(text) > quantity(limits[name]):
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                errors.invalid(f"{path}.containers[{index}][{name}].limits", text, detail)


def validate_overhead(overhead: dict[str, str], path: str, errors: FieldErrors) -> None:
    """Check the pod's overhead by the rules of a container's limits."""
    _validate({"limits": overhead}, path, container_resource_name, errors)


def _validate(resources: JsonObject, path: str, check_name: NameCheck, errors: FieldErrors) -> None:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, text in limits.items():
        at = f"{path}.limits[{name}]"
        check_name(name, at, errors)
        resource_quantity(name, text, at, errors)
        if is_huge_pages(name):
            _huge_page_multiple(name, quantity(text), at, errors)
    for name, text in requests.items():
        at = f"{path}.requests[{name}]"
        check_name(name, at, errors)
        resource_quantity(name, text, at, errors)
        _request_within_limit(name, text, limits, path, errors)
        if is_huge_pages(name):
            _huge_page_multiple(name, quantity(text), at, errors)
    requested = limits.keys() | requests.keys()
    if "cpu" not in requested and "memory" not in requested and any(is_huge_pages(name) for name in requested):
        errors.forbidden(path, "HugePages require cpu or memory")


def _validate_classes(resources: JsonObject, path: str, errors: FieldErrors) -> None:
    if classes := resources.get("classes"):
        classrules.class_map(classes, f"{path}.classes", errors)
    if listed := resources.get(classfields.OTHER_FORM):
        classfields.validate_other_form(listed, classes or {}, f"{path}.{classfields.OTHER_FORM}", errors)


def _request_within_limit(name: str, text: str, limits: dict[str, str], path: str, errors: FieldErrors) -> None:
    limit = limits.get(name)
    if limit == text:
        return
    if limit is None:
        if not is_overcommittable(name):
            errors.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    elif quantity(text) != quantity(limit) and not is_overcommittable(name):
        errors.invalid(f"{path}.requests", text, f"must be equal to {name} limit of {limit}")
    elif quantity(text) > quantity(limit):
        errors.invalid(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limit}")


def _huge_page_multiple(name: str, amount: Quantity, path: str, errors: FieldErrors) -> None:
    try:
        page = quantity(name.removeprefix(HUGE_PAGES))
    except ValueError:
        page = ZERO
    whole = page > ZERO and amount > ZERO and amount.is_integer() and amount.value() % page.value() == 0
    if not whole:
        errors.invalid(path, str(amount), f"{amount} is not positive integer multiple of {name}")


def _validate_claims(claims: Sequence[JsonObject], pod_claims: frozenset[str], path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name, request = claim.get("name", ""), claim.get("request", "")
        at = f"{path}[{index}]"
        if not name:
            errors.required(at)
            continue
        if request:
            checks.dns_label(request, f"{at}.request", errors)
        key = f"{name}/{request}" if request else name
        repeated = name in seen or key in seen
        if repeated or (not request and any(other.startswith(f"{name}/") for other in seen)):
            errors.duplicate(at, key)
        seen.add(key)
        if name not in pod_claims:
            listed = ": " + ", ".join(sorted(pod_claims)) if pod_claims else " which is empty"
            errors.not_found(at, name, f"must be one of the names in pod.spec.resourceClaims{listed}")


def validate_resize_policy(policies: Sequence[JsonObject], path: str, restart_policy: str, errors: FieldErrors) -> None:
    """Check `resizePolicy` of a container; Kubernetes reports most errors at the path of the whole list."""
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            errors.duplicate(f"{path}[{index}]", name)
        seen.add(name)
        checks.one_of(name, _RESIZE_RESOURCES, path, errors)
        checks.one_of(restart, _RESIZE_POLICIES, path, errors)
        if restart_policy == "Never" and restart != "NotRequired":
            errors.invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'")
