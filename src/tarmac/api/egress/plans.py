"""Previews of manifests of ExternalServices and SourceIPClaims: computed and never stored."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tarmac.api.compute.explanations import Answered, Cause, Refused
from tarmac.api.declare import Field


class SourcePlan(Answered, frozen=True):
    """The effect on one source."""

    service: Annotated[str, Field("The Service, as namespace/name.")]
    source_ip: Annotated[str, Field("The address that the outside would see.")] = msgspec.field(
        name="sourceIP", default=""
    )
    cities: Annotated[list[str], Field("Cities of the pods that could use it, with their number, such as DFW 2.")] = []
    gateway: Annotated[str, Field("The node that would carry the address.")] = ""
    inbound: Annotated[list[str], Field("Ports at which the target would reach the Service, such as 80/TCP.")] = []
    refused: Annotated[list[Refused], Field("Parts that would not work, with the causes.")] = []


class ExternalPlan(Answered, frozen=True):
    """The effects of the manifest."""

    accepted: Annotated[bool, Field("Whether the server would take the manifest.")]
    causes: Annotated[list[Cause], Field("Why not.")] = []
    addresses: Annotated[list[str], Field("Addresses that a claim would get.")] = []
    sources: Annotated[list[SourcePlan], Field("The effect on each source.")] = []
    refused: Annotated[list[Refused], Field("Obstacles for all sources, with the causes.")] = []

    @property
    def runs(self) -> bool:
        """True if the whole manifest would work."""
        return self.accepted and not self.refused and not any(source.refused for source in self.sources)
