"""ServiceCIDR and IPAddress: the ranges of cluster addresses, and each address that is given to a Service."""

from __future__ import annotations

from typing import Final

from tarmac.api import checks
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.resource import Strategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

GROUP: Final = "networking.k8s.io"
DEFAULT_RANGE: Final = "kubernetes"
"""The ServiceCIDR from which addresses are given out."""
LABEL_FAMILY: Final = "ipaddress.kubernetes.io/ip-family"
LABEL_MANAGER: Final = "ipaddress.kubernetes.io/managed-by"
MANAGER: Final = "ipallocator.k8s.io"
"""Value of the label on addresses that Tarmac writes, as on those of Kubernetes."""
_MAX_RANGES: Final = 2  # one of each family


class ServiceCIDRStrategy(KubernetesStrategy):
    """ServiceCIDR."""

    has_status = True

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj.setdefault("status", {})

    def prepare_for_status_update(self, new: JsonObject, old: JsonObject) -> None:
        # unlike most of Kubernetes' own kinds, only the status may change here
        Strategy.prepare_for_status_update(self, new, old)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        _validate_ranges(obj["spec"], errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        now, before = (each["spec"].get("cidrs") or [] for each in (new, old))
        if len(now) != len(before) and (len(before), len(now)) != (1, _MAX_RANGES):
            checks.immutable(now, before, "spec.cidrs", errors)
            return
        for index, cidr in enumerate(before):
            checks.immutable(now[index], cidr, f"spec.cidrs[{index}]", errors)
        if len(now) > len(before):  # the second family may be added
            _validate_ranges(new["spec"], errors)


def _validate_ranges(spec: JsonObject, errors: FieldErrors) -> None:
    cidrs: list[str] = spec.get("cidrs") or []
    if not cidrs:
        errors.required("spec.cidrs", "at least one CIDR required")
        return
    if len(cidrs) > _MAX_RANGES:
        shown = checks.go_struct(spec, ("CIDRs", None))
        errors.invalid("spec.cidrs", shown, f"may only hold up to {_MAX_RANGES} values")
        return
    for index, cidr in enumerate(cidrs):
        checks.report(_canonical_range(cidr), cidr, f"spec.cidrs[{index}]", errors)
    if len(cidrs) == _MAX_RANGES and len({":" in cidr for cidr in cidrs}) == 1:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.invalid("spec.cidrs", cidrs, text)


def _canonical_range(cidr: str) -> list[str]:
    if problems := names.cidr(cidr, strict=True):
        return problems
    canonical = str(names.address_range(cidr))
    return [] if cidr == canonical else [f'must be in canonical form ("{canonical}")']


def address_name(name: str) -> list[str]:
    """Check the name of an IPAddress: the address, in its canonical form."""
    if problems := names.ip_address(name, strict=True):
        return problems
    canonical = str(names.plain_address(name))
    return [] if name == canonical else [f'must be in canonical form ("{canonical}")']


class IPAddressStrategy(KubernetesStrategy):
    """IPAddress."""

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        parent, path = obj["spec"].get("parentRef"), "spec.parentRef"
        if parent is None:
            errors.required(path)
            return
        if group := parent.get("group"):
            checks.dns_subdomain(group, f"{path}.group", errors)
        for field in ("resource", "name", "namespace"):
            value = parent.get(field, "")
            if not value and field != "namespace":
                errors.required(f"{path}.{field}")
            checks.report(names.path_segment_name(value), value, f"{path}.{field}", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        checks.immutable(new["spec"].get("parentRef"), old["spec"].get("parentRef"), "spec.parentRef", errors)
