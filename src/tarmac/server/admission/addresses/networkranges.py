"""NetworkRanges: rejects a Network with the address of a node or the API server in its range.

If a node joins later, the network controller detects it and rejects further attachments.
"""

from __future__ import annotations

from tarmac.api.checks import mapping
from tarmac.api.resource import Resource
from tarmac.api.status import invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.admission.addresses.platformaddresses import PlatformAddresses
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation

_BUCKET = "networking.datumapis.com/networks"


class NetworkRanges(AdmissionPlugin):
    """Checks a Network at creation; its ranges are immutable."""

    name = "NetworkRanges"

    def __init__(self, addresses: PlatformAddresses) -> None:
        self._addresses = addresses

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _BUCKET and subresource == "" and operation == "CREATE"

    def validate(self, attributes: Attributes) -> None:
        """Check both ranges, if set."""
        errors, ipam = FieldErrors(), mapping(attributes.obj, "spec", "ipam")
        for field in ("ipv4Range", "ipv6Range"):
            if ipam.get(field) and self._addresses.are_in(ipam[field]):
                detail = "must not hold the address of a node or of the API server: use a range that they are not in"
                errors.invalid(f"spec.ipam.{field}", ipam[field], detail)
        if errors:
            raise invalid(attributes.resource.group, attributes.resource.kind, attributes.name, errors)
