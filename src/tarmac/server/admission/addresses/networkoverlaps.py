"""NetworkOverlaps: rejects a Workload that puts one instance on Networks with overlapping addresses.

Only ranges known at the write are checked. If ranges become known later, the controllers attach nothing and report the
reason. An update with unchanged interfaces is not checked.
"""

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
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.reader import Reader

_BUCKET, _NETWORKS = "compute.datumapis.com/workloads", "networking.datumapis.com/networks"


class NetworkOverlaps(AdmissionPlugin):
    """Checks Workloads with several interfaces per instance."""

    name = "NetworkOverlaps"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _BUCKET and subresource == "" and operation in ("CREATE", "UPDATE")

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
