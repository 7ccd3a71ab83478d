"""Ranges of Networks: apart from the addresses of nodes and API servers, and from each other on one instance."""

from __future__ import annotations

from tarmac.api.checks import mapping, objects
from tarmac.api.compute.instance import NetworkInterface
from tarmac.api.declare import decode
from tarmac.api.networking.network import Network
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.decide.addresses import overlap
from tarmac.server.admission.addresses.platformaddresses import PlatformAddresses
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.reader import Reader

_NETWORKS, _WORKLOADS = "networking.datumapis.com/networks", "compute.datumapis.com/workloads"


class NetworkRanges(AdmissionPlugin):
    """Rejects a Network with the address of a node or the API server in its range.

    Checks a Network at creation; its ranges are immutable. If a node joins later, the network controller detects it and
    rejects further attachments.
    """

    name = "NetworkRanges"

    def __init__(self, addresses: PlatformAddresses) -> None:
        self._addresses = addresses

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _NETWORKS and subresource == "" and operation == "CREATE"

    def validate(self, attributes: Attributes) -> None:
        """Check both ranges, if set."""
        errors, ipam = FieldErrors(), mapping(attributes.obj, "spec", "ipam")
        for field in ("ipv4Range", "ipv6Range"):
            if ipam.get(field) and self._addresses.are_in(ipam[field]):
                detail = "must not hold the address of a node or of the API server: use a range that they are not in"
                errors.invalid(f"spec.ipam.{field}", ipam[field], detail)
        if errors:
            raise invalid(attributes.resource.group, attributes.resource.kind, attributes.name, errors)


class NetworkOverlaps(AdmissionPlugin):
    """Rejects a Workload that puts one instance on Networks with overlapping addresses.

    Only ranges known at the write are checked. If ranges become known later, the controllers attach nothing and report
    the reason. An update with unchanged interfaces is not checked.
    """

    name = "NetworkOverlaps"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _WORKLOADS and subresource == "" and operation in ("CREATE", "UPDATE")

    def validate(self, attributes: Attributes) -> None:
        """Report the first two conflicting interfaces."""
        wanted = _interfaces(attributes.obj)
        if len(wanted) < 2 or wanted == _interfaces(attributes.old):
            return
        found = overlap(attributes.namespace, [decode(NetworkInterface, each) for each in wanted], self._network)
        if found is None:
            return
        errors, where = FieldErrors(), f"spec.template.spec.networkInterfaces[{found.position}].network"
        detail = f"{found.refusal.message} {found.refusal.change}"
        errors.invalid(where, wanted[found.position]["network"]["name"], detail)
        raise invalid(attributes.resource.group, attributes.resource.kind, attributes.name, errors)

    def _network(self, key: str) -> Network | None:
        found = self._reader.get(_NETWORKS, key)
        return decode(Network, found) if found is not None else None


def _interfaces(workload: JsonObject | None) -> list[JsonObject]:
    return list(objects(mapping(workload or {}, "spec", "template", "spec"), "networkInterfaces"))
