"""Resource names (`cpu`, `requests.memory`, `example.com/gpu`) and checks of their quantities.

The same name rules serve containers, limit ranges, quotas and nodes; they differ only in the accepted plain names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tarmac.api.checks import NOT_NEGATIVE, report
from tarmac.base import names
from tarmac.base.boundedcache import bounded_cache
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import Quantity

HUGE_PAGES = "hugepages-"
ZERO = Quantity.parse(0)

_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_INTEGER = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_QUOTA = (
    _CONTAINER
    | _INTEGER
    | {
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    }
)
_STANDARD = _QUOTA | {"storage"}


@bounded_cache(4096)
def quantity(text: str | int | float) -> Quantity:
    """Parse a quantity that decoding has accepted. Results are cached, since texts repeat often."""
    return Quantity.parse(text)


def is_huge_pages(name: str) -> bool:
    """Return True for `hugepages-2Mi` and the like."""
    return name.startswith(HUGE_PAGES)


def is_native(name: str) -> bool:
    """Return True for Kubernetes' own resources, as opposed to those of device plugins."""
    return "/" not in name or "kubernetes.io/" in name


def is_overcommittable(name: str) -> bool:
    """Return True if a limit may be larger than the request."""
    return is_native(name) and not is_huge_pages(name)


def is_extended(name: str) -> bool:
    """Return True for a device plugin's resource, countable in quotas as `requests.<name>`."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def is_standard_quota(name: str) -> bool:
    """Return True for a plain name that quotas know."""
    return name in _QUOTA or name.startswith((HUGE_PAGES, "requests.hugepages-"))


def resource_name(name: str, path: str, errors: FieldErrors) -> None:
    """Check any resource's name."""
    if name in _STANDARD:
        return
    if messages := names.qualified_name(name):
        report(messages, name, path, errors)
    elif "/" not in name and not name.startswith((HUGE_PAGES, "requests.hugepages-")):
        errors.invalid(path, name, "must be a standard resource type or fully qualified")


def container_resource_name(name: str, path: str, errors: FieldErrors) -> None:
    """Check the name of a resource that a container requests."""
    if name in _CONTAINER:
        return
    resource_name(name, path, errors)
    if "/" not in name:
        if not is_huge_pages(name):
            errors.invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        errors.invalid(path, name, "doesn't follow extended resource name standard")


def pod_resource_name(name: str, path: str, errors: FieldErrors) -> None:
    """Check the name of a resource that a whole pod requests."""
    if name in ("cpu", "memory") or is_huge_pages(name):
        return
    before = len(errors)
    resource_name(name, path, errors)
    if len(errors) == before:
        errors.not_supported(path, name, ("cpu", "hugepages-", "memory"))


def quota_resource_name(name: str, path: str, errors: FieldErrors) -> None:
    """Check the name of a resource that a quota limits."""
    if name in _QUOTA:
        return
    resource_name(name, path, errors)
    if "/" not in name and not is_standard_quota(name):
        errors.invalid(path, name, "must be a standard resource for quota")


def resource_quantity(name: str, text: str, path: str, errors: FieldErrors) -> None:
    """Check that a quantity is not negative, and an integer where required."""
    amount = quantity(text)
    if amount < ZERO:
        errors.invalid(path, str(amount), NOT_NEGATIVE)
    if not amount.is_integer() and (name in _INTEGER or is_extended(name)):
        errors.invalid(path, str(amount), "must be an integer")


def resource_list(
    amounts: Mapping[str, str], path: str, check_name: Callable[[str, str, FieldErrors], None], errors: FieldErrors
) -> None:
    """Check every name and quantity of a resource list."""
    for name, text in amounts.items():
        at = f"{path}[{name}]"
        check_name(name, at, errors)
        resource_quantity(name, text, at, errors)


def round_up(amounts: dict[str, str] | None) -> None:
    """Round amounts up to milli precision, in place, as in Kubernetes."""
    if not amounts:
        return
    for name, text in amounts.items():
        if isinstance(text, str) and text[-1:] in ("n", "u"):
            amounts[name] = str(Quantity.parse(f"{quantity(text).milli()}m"))
