"""Resources of an instance, and its containers' shares of them.

The instance's own amounts are those of its type, or those requested beside a custom type. Containers divide them: they
may not name other resources or larger amounts, and once every container has limits these must add up to exactly the
instance's cpu and memory.
"""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.checks import mapping, objects
from tarmac.api.compute.instancetype import is_custom
from tarmac.api.compute.lookup import find_type
from tarmac.api.compute.validation.amounts import amounts
from tarmac.api.compute.validation.context import Context
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import ZERO

_DIVIDED = ("cpu", "memory")
_CUSTOM_HINT = "may only be set with a custom instance type, such as datumcloud/d1-custom"


def check_runtime_resources(runtime: JsonObject, path: str, context: Context) -> ResourceList | None:
    """Check type and requests; return the instance's amounts, or None if they are unknown."""
    errors = context.errors
    resources, where = mapping(runtime, "resources"), f"{path}.resources"
    written = resources.get("instanceType", "")
    if not written:
        errors.required(f"{where}.instanceType")
        return None
    facts = find_type(context.lookup, written)
    if facts is None and written != context.stored.instance_type:
        errors.not_supported(f"{where}.instanceType", written, sorted(context.lookup.instance_types()))
    elif facts is not None and facts.phase == "Disabled" and written != context.stored.instance_type:
        errors.invalid(f"{where}.instanceType", written, f"is disabled; use {facts.replacement or 'another type'}")
    requests = resources.get("requests") or {}
    if is_custom(written):
        return _custom(requests, f"{where}.requests", errors)
    if requests:
        errors.forbidden(f"{where}.requests", _CUSTOM_HINT)
    return dict(facts.resources) if facts is not None else None


def _custom(requests: JsonObject, path: str, errors: FieldErrors) -> ResourceList | None:
    complete = True
    for name in _DIVIDED:
        if name not in requests:
            errors.required(f"{path}[{name}]", "a custom instance type needs it")
            complete = False
    for name in requests:
        if name not in _DIVIDED:
            _device_name(name, f"{path}[{name}]", errors)
    found = amounts(requests, path, errors)
    for name, quantity in found.items():
        if not quantity:
            errors.invalid(f"{path}[{name}]", requests[name], "must be greater than 0")
            complete = False
    return found if complete and len(found) == len(requests) else None


def _device_name(name: str, path: str, errors: FieldErrors) -> None:
    checks.report(names.qualified_name(name), name, path, errors)
    if "/" not in name:
        errors.not_supported(path, name, [*_DIVIDED, "a fully qualified device"])


def check_shares(
    sandbox: JsonObject, whole: ResourceList | None, path: str, requests_path: str, errors: FieldErrors
) -> None:
    """Check the requests and limits of containers. `requests_path` is the path of the instance's device requests."""
    containers = objects(sandbox, "containers")
    shares = [_Share(item, f"{path}.containers[{index}]", errors) for index, item in enumerate(containers)]
    initial = objects(sandbox, "initContainers")
    before = [_Share(item, f"{path}.initContainers[{index}]", errors) for index, item in enumerate(initial)]
    if whole is None:
        return
    for share in [*shares, *before]:
        share.check_within(whole, errors)
    if len(shares) == 1:
        shares[0].check_takes_all(whole, errors)
    _sums(shares, whole, f"{path}.containers", errors)
    _devices(shares, whole, requests_path, errors)


class _Share:
    """A container's share of the resources."""

    def __init__(self, container: JsonObject, path: str, errors: FieldErrors) -> None:
        resources = mapping(container, "resources")
        self.path = f"{path}.resources"
        self.limited = bool(resources.get("limits"))
        self.requests = amounts(resources.get("requests") or {}, f"{self.path}.requests", errors)
        self.limits = amounts(resources.get("limits") or {}, f"{self.path}.limits", errors)
        self.silent = not (resources.get("requests") or resources.get("limits"))
        # With an unparsable amount, checking sums would only repeat the error.
        written = len(resources.get("requests") or ()) + len(resources.get("limits") or ())
        self.readable = len(self.requests) + len(self.limits) == written

    def check_within(self, whole: ResourceList, errors: FieldErrors) -> None:
        """Reject resources that the instance lacks, amounts above the instance's, and requests above their limit."""
        for field, values in (("requests", self.requests), ("limits", self.limits)):
            for name, quantity in values.items():
                where = f"{self.path}.{field}[{name}]"
                if name not in whole:
                    errors.not_supported(where, name, whole)
                elif quantity > whole[name]:
                    errors.invalid(where, str(quantity), f"must be less than or equal to the instance's {whole[name]}")
        for name, quantity in self.requests.items():
            limit = self.limits.get(name)
            if limit is not None and quantity > limit:
                where = f"{self.path}.requests[{name}]"
                errors.invalid(where, str(quantity), f"must be less than or equal to {name} limit of {limit}")

    def check_takes_all(self, whole: ResourceList, errors: FieldErrors) -> None:
        """Check that the only container requests all of the instance's amounts, or none."""
        for name, quantity in self.requests.items():
            if name in whole and quantity < whole[name]:
                where = f"{self.path}.requests[{name}]"
                errors.invalid(where, str(quantity), f"must be the instance's {whole[name]}: it is the only container")


def _sums(shares: list[_Share], whole: ResourceList, path: str, errors: FieldErrors) -> None:
    if not all(share.readable for share in shares):
        return
    for name in _DIVIDED:
        if name not in whole:
            continue
        requested = sum((share.requests.get(name, ZERO) for share in shares), ZERO)
        if requested > whole[name]:
            errors.invalid(path, str(requested), f"requests of {name} add up to more than the instance's {whole[name]}")
        limited = sum((share.limits.get(name, ZERO) for share in shares), ZERO)
        if shares and all(share.limited for share in shares) and limited != whole[name]:
            errors.invalid(path, str(limited), f"limits of {name} must add up to exactly the instance's {whole[name]}")


def _devices(shares: list[_Share], whole: ResourceList, path: str, errors: FieldErrors) -> None:
    if len(shares) == 1 and shares[0].silent:
        return
    for name, quantity in whole.items():
        taken = any(name in share.requests or name in share.limits for share in shares)
        if name not in _DIVIDED and not taken:
            errors.invalid(f"{path}[{name}]", str(quantity), "at least one container must request the device")
