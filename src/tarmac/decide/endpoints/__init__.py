"""Endpoints of a Service: the pods behind it, their ports and their networks."""

from __future__ import annotations

from tarmac.decide.endpoints.facts import EndpointPod, ServiceFacts
from tarmac.decide.endpoints.groups import Endpoint, Group, Grouping, grouped
from tarmac.decide.endpoints.mirrors import EndpointsFacts, Mirrors, mirrors
from tarmac.decide.endpoints.objects import Listing
from tarmac.decide.endpoints.ports import Port
from tarmac.decide.endpoints.shares import shared_out

__all__ = [
    "Endpoint",
    "EndpointPod",
    "EndpointsFacts",
    "Group",
    "Grouping",
    "Listing",
    "Mirrors",
    "Port",
    "ServiceFacts",
    "grouped",
    "mirrors",
    "shared_out",
]
