"""Previews of manifests for connections from outside: computed and never stored."""

from __future__ import annotations

from typing import Annotated

from tarmac.api.compute.explanations import AddressPlan, Cause
from tarmac.api.declare import Field, schema_of
from tarmac.api.ingress.names import API_VERSION
from tarmac.api.resource import Subresource


class IngressPlan(AddressPlan, frozen=True):
    """The effects of the manifest of a Service, an AddressPool, a PublicAddress or a BGPPeer."""

    accepted: Annotated[bool, Field("Whether the server would take the manifest.")] = True
    causes: Annotated[list[Cause], Field("Why not.")] = []
    available: Annotated[int, Field("Addresses of a pool that would be free.")] = 0
    holders: Annotated[
        list[str], Field("Services and Workloads that would get an address, such as Service shop/web.")
    ] = []

    @property
    def runs(self) -> bool:
        """True if the whole manifest would work."""
        return self.accepted and not self.refused


PLAN = Subresource("plan", "IngressPlan", ("create",), *API_VERSION.split("/"), answer=lambda: schema_of(IngressPlan))
