"""Way in with the feature gate off: no object of its kinds may be created.

Stored objects stay, and may be changed and deleted.
"""

from __future__ import annotations

from typing import Final

from tarmac.api.ingress.names import ADDRESS_POOLS, BGP_PEERS, PUBLIC_ADDRESSES
from tarmac.api.resource import Resource
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.refusal import refuse

_KINDS: Final = frozenset({ADDRESS_POOLS, BGP_PEERS, PUBLIC_ADDRESSES})


class IngressRejection(AdmissionPlugin):
    """Refuses the creation of AddressPools, PublicAddresses and BGPPeers."""

    name = "IngressReferences"

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket in _KINDS and subresource == "" and operation == "CREATE"

    def validate(self, attributes: Attributes) -> None:
        raise refuse(attributes, "the feature gate WayIn is off; start the server with --feature-gates WayIn=true")
