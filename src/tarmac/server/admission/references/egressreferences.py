"""ExternalReferences: checks references of external services, as far as they are known at the write.

A claim's author must be allowed to use its class. Classes must not overlap, and must not drop a held or resting
address. A SourceIP must lie in its class. A target must be outside the platform. Later problems (a node that takes the
target's address, a missing class) are reported by the controller as a condition, and an update is not rejected for
unchanged fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_address, ip_network
from typing import Final

from tarmac.api.checks import mapping
from tarmac.api.declare import decode
from tarmac.api.egress.addressrules import Bounds
from tarmac.api.egress.names import GROUP, Address
from tarmac.api.egress.sourceip import AddressLimits
from tarmac.api.egress.targets import not_outside
from tarmac.api.networking.names import INTERNAL_NETWORK, SYSTEM_PREFIX
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import conflict, invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.admission.addresses.platformaddresses import PlatformAddresses
from tarmac.server.admission.addresses.sourceranges import (
    CLASSES,
    RANGE_GUARD,
    SOURCE_IPS,
    SourceRanges,
    overlapping,
    ranges_of,
)
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.rights import may_use
from tarmac.server.reader import Reader
from tarmac.server.security.authorization.authorize import Authorizer

_CLAIMS, _SERVICES = f"{GROUP}/sourceipclaims", f"{GROUP}/externalservices"
_NETWORKS = "networking.datumapis.com/networks"
_LIMITS: Final = {
    "egress_bandwidth": "egressBandwidth",
    "ingress_bandwidth": "ingressBandwidth",
    "connections": "connections",
}

Check = Callable[[Attributes, JsonObject, FieldErrors], None]


class ExternalReferences(AdmissionPlugin):
    """Checks the four kinds that users write."""

    name = "ExternalReferences"

    def __init__(self, reader: Reader, authorizer: Authorizer, addresses: PlatformAddresses) -> None:
        self._reader, self._authorizer, self._addresses = reader, authorizer, addresses
        self._ranges = SourceRanges(reader)
        self._checks: Mapping[str, Check] = {
            CLASSES: self._check_class,
            SOURCE_IPS: self._check_source_ip,
            _CLAIMS: self._check_claim,
            _SERVICES: self._check_service,
        }

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket in self._checks and subresource == "" and operation in ("CREATE", "UPDATE")

    def guard(self, resource: Resource, namespace: str) -> str | None:
        """Guard classes and SourceIPs, which are compared with each other.

        The other kinds may become invalid later anyway.
        """
        return RANGE_GUARD if resource.bucket in (CLASSES, SOURCE_IPS) and self._reader.store.shared else None

    def validate(self, attributes: Attributes) -> None:
        """Check the object and report all errors at once."""
        assert attributes.obj is not None, "created or updated"
        with FieldErrors() as errors:
            self._checks[attributes.resource.bucket](attributes, attributes.obj["spec"], errors)
        if errors:
            raise invalid(attributes.resource.group, attributes.resource.kind, attributes.name, errors)

    def _check_class(self, attributes: Attributes, spec: JsonObject, errors: FieldErrors) -> None:
        if spec.get("ranges") == mapping(attributes.old, "spec").get("ranges"):
            return
        others = self._ranges.offered(without=attributes.name)
        for index, mine in enumerate(ranges_of(attributes.obj)):
            other = overlapping(mine.bounds, others)
            if other is not None:
                detail = f"overlaps {other.written} of {other.holder}"
                errors.invalid(f"spec.ranges[{index}]", mine.written, detail)
        dropped = [] if attributes.old is None else self._ranges.dropped(attributes.old, attributes.obj)
        if dropped:
            why = f"spec.ranges must go on holding {', '.join(dropped)}: delete what holds them, and let them rest"
            raise conflict(attributes.resource.group, attributes.resource.plural, attributes.name, why)

    def _check_source_ip(self, attributes: Attributes, spec: JsonObject, errors: FieldErrors) -> None:
        offered = self._reader.get(CLASSES, spec["className"]) if attributes.old is None else None
        address = ip_address(spec["address"])
        if offered is not None and not any(each.bounds.holds(address) for each in ranges_of(offered)):
            detail = f'must be in a range of SourceIPClass "{spec["className"]}"'
            errors.invalid("spec.address", spec["address"], detail)

    def _check_claim(self, attributes: Attributes, spec: JsonObject, errors: FieldErrors) -> None:
        before, name = mapping(attributes.old, "spec"), spec["className"]
        new, who = name != before.get("className"), attributes.user
        if new and not may_use(self._authorizer, who, CLASSES, name, attributes.namespace):
            errors.forbidden("spec.className", f'you may not use SourceIPClass "{name}"')
            return  # the limits of a class are for its users
        offered = self._reader.get(CLASSES, name)
        if offered is not None and spec.get("limits") != before.get("limits"):
            _check_limits(mapping(spec, "limits"), mapping(offered, "spec", "limits"), errors)

    def _check_service(self, attributes: Attributes, spec: JsonObject, errors: FieldErrors) -> None:
        """Check the target against the platform and the own namespace.

        Networks of other namespaces are left to the controller, which knows the grants: a rejection, also of a dry run,
        would tell their names and ranges to any user.
        """
        if spec["targetIP"] == mapping(attributes.old, "spec").get("targetIP"):
            return
        target = ip_address(spec["targetIP"])
        held = self._of_platform(target) or self._of_networks(target, attributes.namespace)
        if held is not None:
            errors.invalid("spec.targetIP", spec["targetIP"], not_outside(held))

    def _of_platform(self, target: Address) -> str | None:
        if self._addresses.are_in(str(target)):
            return f"the addresses of nodes and API servers {target}"
        found = overlapping(Bounds(target.version, int(target), int(target)), self._ranges.offered())
        return f"{found.holder} {found.written}" if found is not None else None

    def _of_networks(self, target: Address, own: str) -> str | None:
        """Name a Network of the namespace's Pods with the target in its range, which would mean an instance there."""
        namespace = INTERNAL_NETWORK.partition("/")[0] if own.startswith(SYSTEM_PREFIX) else own
        for network in self._reader.list(_NETWORKS, f"{namespace}/"):
            for written in _network_ranges(network, target.version):
                if target in ip_network(written):
                    return f"Network {namespace}/{network['metadata']['name']} {written}"
        return None


def _check_limits(wanted: JsonObject, most: JsonObject, errors: FieldErrors) -> None:
    asked, bounds = decode(AddressLimits, wanted), decode(AddressLimits, most)
    for field, written in _LIMITS.items():
        value, bound = getattr(asked, field), getattr(bounds, field)
        if value is not None and bound is not None and value > bound:
            errors.invalid(f"spec.limits.{written}", wanted[written], f"must not exceed the class's {most[written]}")


def _network_ranges(network: JsonObject, family: int) -> set[str]:
    field = f"ipv{family}Range"
    written = {mapping(network, "spec", "ipam").get(field), mapping(network, "status").get(field)}
    return {each for each in written if each}
