"""Rules of SourceIPClass (offered addresses), SourceIP (one address) and SourceIPClaim (a claim on an address).

Admission checks rules that involve other objects (overlaps of classes, permission to use the class of a claim).
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from tarmac.api import checks
from tarmac.api.checks import mapping, objects
from tarmac.api.egress.names import object_name
from tarmac.api.egress.sourceip import AddressRange, SourceIP, SourceIPClaim, SourceIPClass
from tarmac.api.egress.strategies import check_namespace
from tarmac.api.egress.targets import reserved_between
from tarmac.api.networking.validation.ranges import Address, check_address, parse_range
from tarmac.api.ownkinds import IMMUTABLE, OwnStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.duration import parse_duration
from tarmac.base.fielderrors import FieldErrors

_NOT_FOR_NODES = ("submariner.io/", "node-restriction.kubernetes.io/")  # labels that nodes cannot set on themselves
MAX_IPV4 = 65_536  # addresses of one range


class Bounds(NamedTuple):
    """The first and last address of a range, as numbers."""

    family: int
    first: int
    last: int

    def overlaps(self, other: Bounds) -> bool:
        """Return True if both have an address in common."""
        return self.family == other.family and self.first <= other.last and other.first <= self.last

    def holds(self, address: Address) -> bool:
        """Return True if the address is in the range."""
        return self.family == address.version and self.first <= int(address) <= self.last


def bounds_of(written: AddressRange) -> Bounds:
    """Return the bounds of an admitted range."""
    if written.cidr:
        whole = ip_network(written.cidr)
        return Bounds(whole.version, int(whole.network_address), int(whole.broadcast_address))
    first = ip_address(written.start)
    return Bounds(first.version, int(first), int(ip_address(written.end)))


def written_as(found: AddressRange) -> str:
    """Return a range as users write it."""
    return found.cidr or f"{found.start}-{found.end}"


class SourceIPClassStrategy(OwnStrategy):
    """Rules of SourceIPClasses."""

    def __init__(self) -> None:
        super().__init__(SourceIPClass)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check ranges, places, targets, times."""
        spec = obj["spec"]
        changed = old is None or old["spec"].get("ranges") != spec.get("ranges")
        families = check_ranges(objects(spec, "ranges"), errors, changed=changed)
        check_subnet(mapping(spec, "subnet"), families, errors)
        for index, target in enumerate(spec.get("allowedTargets") or ()):
            parse_range(target, f"spec.allowedTargets[{index}]", errors)
        for index, place in enumerate(objects(spec, "locations")):
            path = f"spec.locations[{index}]"
            checks.dns_subdomain(place.get("name", ""), f"{path}.name", errors)
            checks.label_selector(place.get("gatewaySelector"), f"{path}.gatewaySelector", errors)
        for index, port in enumerate(mapping(spec, "inbound").get("ports") or ()):
            checks.port_number(port, f"spec.inbound.ports[{index}]", errors)
        check_allowed(mapping(spec, "allowedNamespaces"), errors)
        check_hold_down(spec.get("holdDown", ""), errors)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        """Return warnings about unsafe selectors: a node that can label itself can make itself a gateway."""
        found: list[str] = []
        for index, place in enumerate(objects(mapping(obj, "spec"), "locations")):
            found += unsafe_selector(mapping(place, "gatewaySelector"), f"spec.locations[{index}].gatewaySelector")
        return found


def unsafe_selector(chosen: JsonObject, path: str) -> list[str]:
    """Return a warning if a selector of nodes has only labels that nodes can set themselves."""
    keys = {*mapping(chosen, "matchLabels"), *(each["key"] for each in objects(chosen, "matchExpressions"))}
    if not keys or any(key.startswith(_NOT_FOR_NODES) for key in keys):
        return []
    return [f"{path}: nodes can set these labels themselves; choose by one of {_NOT_FOR_NODES[0]}… too"]


def check_ranges(
    ranges: Iterable[JsonObject], errors: FieldErrors, *, changed: bool, holder: str = "class"
) -> set[int]:
    """Check each range, and that ranges of a class or pool do not overlap; return their address families.

    Reserved ranges are rejected in new and changed ones; a class of an earlier version keeps them until it changes.
    """
    found: list[Bounds] = []
    for index, written in enumerate(ranges):
        path = f"spec.ranges[{index}]"
        bounds = _bounds(written, path, errors)
        if bounds is None:
            continue
        if any(bounds.overlaps(other) for other in found):
            errors.invalid(path, written, f"overlaps another range of the {holder}")
        reserved = reserved_between(bounds.family, bounds.first, bounds.last) if changed else None
        if reserved is not None:
            errors.invalid(path, written, f"must be addresses that a gateway can carry: it overlaps {reserved}")
        if bounds.family == 4 and bounds.last - bounds.first >= MAX_IPV4:
            errors.invalid(path, written, f"must not have more than {MAX_IPV4} addresses")
        found.append(bounds)
    return {each.family for each in found}


def _bounds(written: JsonObject, path: str, errors: FieldErrors) -> Bounds | None:
    cidr, start, end = written.get("cidr"), written.get("start"), written.get("end")
    if cidr and (start or end):
        errors.forbidden(f"{path}.cidr", "may not be specified beside `start` and `end`")
    elif cidr:
        if parse_range(cidr, f"{path}.cidr", errors) is not None:
            return bounds_of(AddressRange(cidr=cidr))
    elif not (start and end):
        errors.required(path, "must specify `cidr`, or `start` and `end`")
    else:
        first = check_address(start, f"{path}.start", errors)
        last = check_address(end, f"{path}.end", errors, family=first.version if first else None)
        if first and last and int(last) < int(first):
            errors.invalid(f"{path}.end", end, "must not come before `start`")
        elif first and last:
            return Bounds(first.version, int(first), int(last))
    return None


def check_subnet(subnet: JsonObject, families: set[int], errors: FieldErrors) -> None:
    """Check gateway and interface of the segment of a class or pool; `families` are those of its ranges."""
    gateway = check_address(subnet["gateway"], "spec.subnet.gateway", errors) if subnet.get("gateway") else None
    if gateway is not None and families and gateway.version not in families:
        wanted = " or ".join(f"IPv{family}" for family in sorted(families))
        errors.invalid("spec.subnet.gateway", subnet["gateway"], f"must be an {wanted} address, as the ranges are")
    interface = subnet.get("interface", "")
    if interface and (len(interface) > 15 or "/" in interface or interface.split() != [interface]):
        detail = "must be the name of a network interface: at most 15 characters, no space, no slash"
        errors.invalid("spec.subnet.interface", interface, detail)


def check_allowed(allowed: JsonObject, errors: FieldErrors) -> None:
    """Check the namespaces that may use a class or pool."""
    for index, name in enumerate(allowed.get("names") or ()):
        checks.dns_label(name, f"spec.allowedNamespaces.names[{index}]", errors)
    checks.label_selector(allowed.get("selector"), "spec.allowedNamespaces.selector", errors)


def check_hold_down(written: str, errors: FieldErrors) -> None:
    """Check the quarantine of released addresses."""
    try:
        negative = bool(written) and parse_duration(written) < 0
    except ValueError as error:
        errors.invalid("spec.holdDown", written, str(error))
    else:
        if negative:
            errors.invalid("spec.holdDown", written, "must not be negative")


class SourceIPStrategy(OwnStrategy):
    """Rules of SourceIPs. The name of the object is the lock on its address."""

    immutable = ("spec.address", "spec.className")

    def __init__(self) -> None:
        super().__init__(SourceIP)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check the address, and that the object is named after it."""
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        if spec.get("sharedBy") and not spec.get("claimRef"):
            errors.forbidden("spec.sharedBy", "may not be specified without `claimRef`: the first claim stands there")
        if not spec.get("address"):
            return
        address = check_address(spec["address"], "spec.address", errors)
        if address is not None and old is None and name != object_name(address):
            errors.invalid("metadata.name", name, f"must be {object_name(address)}, after the address")


class SourceIPClaimStrategy(OwnStrategy):
    """Rules of SourceIPClaims."""

    def __init__(self) -> None:
        super().__init__(SourceIPClaim)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check class and address; reject changes of a bound claim."""
        spec = obj["spec"]
        if old is None:
            check_namespace(obj, errors)
        if spec.get("className"):
            checks.dns_subdomain(spec["className"], "spec.className", errors)
        if spec.get("location"):
            checks.dns_subdomain(spec["location"], "spec.location", errors)
        if spec.get("address"):
            families = spec.get("families") or ["IPv4"]
            address = check_address(spec["address"], "spec.address", errors)
            if address is not None and f"IPv{address.version}" not in families:
                errors.invalid("spec.address", spec["address"], f"must be of a family in {', '.join(families)}")
        if mapping(old, "status").get("phase") == "Bound":
            before = mapping(old, "spec")
            for field in sorted((before.keys() | spec.keys()) - {"limits"}):
                if spec.get(field) != before.get(field):
                    errors.invalid(f"spec.{field}", spec.get(field), f"{IMMUTABLE} once the claim is bound")
