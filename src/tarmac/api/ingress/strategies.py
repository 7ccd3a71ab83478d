"""Rules of AddressPools and PublicAddresses that a schema cannot express.

Admission checks rules that involve other objects (overlaps with other pools and classes, dropped ranges).
"""

from __future__ import annotations

import re
from typing import Final

from tarmac.api import checks
from tarmac.api.checks import mapping, objects
from tarmac.api.egress.addressrules import (
    check_allowed,
    check_hold_down,
    check_ranges,
    check_subnet,
    unsafe_selector,
)
from tarmac.api.egress.names import object_name
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.api.networking.validation.ranges import check_address
from tarmac.api.ownkinds import OwnStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_MAX_PARTS: Final = {2: 65_535, 3: 4_294_967_295}
_digits = re.compile(r"\d{1,10}").fullmatch


class AddressPoolStrategy(OwnStrategy):
    """Rules of AddressPools."""

    immutable = ("spec.scope",)

    def __init__(self) -> None:
        super().__init__(AddressPool)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check ranges, places, announcement and times."""
        spec = obj["spec"]
        changed = old is None or old["spec"].get("ranges") != spec.get("ranges")
        families = check_ranges(objects(spec, "ranges"), errors, changed=changed, holder="pool")
        check_subnet(mapping(spec, "subnet"), families, errors)
        check_locations(spec, errors)
        checks.label_selector(spec.get("gatewaySelector"), "spec.gatewaySelector", errors)
        check_allowed(mapping(spec, "allowedNamespaces"), errors)
        check_hold_down(spec.get("holdDown", ""), errors)
        _check_announcement(spec, errors)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        """Return warnings about unsafe selectors, and about pools that no namespace may use."""
        spec = mapping(obj, "spec")
        found = unsafe_selector(mapping(spec, "gatewaySelector"), "spec.gatewaySelector")
        allowed = mapping(spec, "allowedNamespaces")
        if not allowed.get("names") and allowed.get("selector") is None:
            found.append("spec.allowedNamespaces: is empty, so no namespace may use the pool")
        return found


class PublicAddressStrategy(OwnStrategy):
    """Rules of PublicAddresses. The name of the object is the lock on its address."""

    immutable = ("spec.address", "spec.poolName")

    def __init__(self) -> None:
        super().__init__(PublicAddress)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check the address, its holders, and that the object is named after it."""
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        if spec.get("poolName"):
            checks.dns_subdomain(spec["poolName"], "spec.poolName", errors)
        _check_holders(spec, errors)
        if not spec.get("address"):
            return
        address = check_address(spec["address"], "spec.address", errors)
        if address is not None and old is None and name != object_name(address):
            errors.invalid("metadata.name", name, f"must be {object_name(address)}, after the address")


def check_locations(spec: JsonObject, errors: FieldErrors) -> None:
    """Check the names of Locations."""
    for index, place in enumerate(spec.get("locations") or ()):
        checks.dns_subdomain(place, f"spec.locations[{index}]", errors)


def check_communities(written: list[str], parts: int, path: str, errors: FieldErrors) -> None:
    """Check BGP communities of two or three parts, separated by colons."""
    most = _MAX_PARTS[parts]
    form = ":".join(["ASN", *["VALUE"] * (parts - 1)])
    for index, each in enumerate(written):
        numbers = each.split(":") if len(each) <= 64 else []
        if len(numbers) != parts or not all(_digits(number) and int(number) <= most for number in numbers):
            errors.invalid(f"{path}[{index}]", each, f"must have the form {form}, with numbers of at most {most}")


def _check_announcement(spec: JsonObject, errors: FieldErrors) -> None:
    """Check that the scope allows the announcement, and that fields for another announcement are not set."""
    anycast = spec.get("scope") == "Anycast"
    announce = spec.get("announce") or ("bgp" if anycast else "gratuitous")
    if anycast and announce != "bgp":
        detail = "must be bgp with scope Anycast: one segment cannot have an address at several places"
        errors.invalid("spec.announce", announce, detail)
    attributes = mapping(spec, "bgp")
    if attributes and announce != "bgp":
        errors.forbidden("spec.bgp", f"may not be set with announce {announce}: set announce to bgp, or remove it")
    if mapping(spec, "subnet") and announce == "bgp":
        errors.forbidden("spec.subnet", "may not be set with announce bgp: routes need no segment; remove it")
    check_communities(attributes.get("communities") or [], 2, "spec.bgp.communities", errors)
    check_communities(attributes.get("largeCommunities") or [], 3, "spec.bgp.largeCommunities", errors)


def _check_holders(spec: JsonObject, errors: FieldErrors) -> None:
    first, others = mapping(spec, "claimRef"), objects(spec, "sharedBy")
    if others and not first:
        errors.forbidden("spec.sharedBy", "may not be specified without `claimRef`: the first holder stands there")
    for holder, path in ((first, "spec.claimRef"), *((each, f"spec.sharedBy[{n}]") for n, each in enumerate(others))):
        if holder.get("namespace"):
            checks.dns_label(holder["namespace"], f"{path}.namespace", errors)
        if bool(holder.get("name")) != bool(holder.get("kind")):
            missing = "kind" if holder.get("name") else "name"
            errors.required(f"{path}.{missing}", "kind and name belong together; a reservation has neither")
        if holder.get("uid") and not holder.get("name"):
            errors.forbidden(f"{path}.uid", "may not be specified without `kind` and `name`")
    for number, each in enumerate(others):
        path = f"spec.sharedBy[{number}]"
        if each.get("namespace") and each["namespace"] != first.get("namespace"):
            errors.invalid(f"{path}.namespace", each["namespace"], "must be the namespace of `claimRef`")
        if "Workload" in (each.get("kind"), first.get("kind")):
            errors.forbidden(path, "may not be specified with Workloads: only Services share addresses")
