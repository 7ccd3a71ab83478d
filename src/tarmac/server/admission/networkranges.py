"""NetworkRanges: no Network is made whose range holds the address of a node, or of the API server.

A node that comes later is seen by the controller of networks, which then refuses to attach anything more.
"""

from __future__ import annotations

from tarmac.api.kubernetes.checks import mapping
from tarmac.api.resource import Resource
from tarmac.api.status import invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.admission.platformaddresses import PlatformAddresses

_BUCKET = "networking.datumapis.com/networks"


class NetworkRanges(Plugin):
    """Refuses a Network when it is made; its ranges cannot be changed later."""

    name = "NetworkRanges"

    def __init__(self, addresses: PlatformAddresses) -> None:
        self._addresses = addresses

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _BUCKET and subresource == "" and operation == "CREATE"

    def validate(self, attributes: Attributes) -> None:
        """Both ranges, if they are given."""
        errors, ipam = FieldErrors(), mapping(attributes.obj, "spec", "ipam")
        for field in ("ipv4Range", "ipv6Range"):
            if ipam.get(field) and self._addresses.are_in(ipam[field]):
                detail = "must not hold the address of a node or of the API server: use a range that they are not in"
                errors.invalid(f"spec.ipam.{field}", ipam[field], detail)
        if errors:
            raise invalid(attributes.resource.group, attributes.resource.kind, attributes.name, errors)
