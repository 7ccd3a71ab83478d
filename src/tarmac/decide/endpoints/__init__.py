"""Endpoints of a Service: the pods behind it, their ports and their networks."""

from __future__ import annotations

from tarmac.decide.endpoints.endpointsbuilder import EndpointsBuilder
from tarmac.decide.endpoints.groups import Endpoint, EndpointGroup, Grouping, grouped
from tarmac.decide.endpoints.mirrors import EndpointsFacts, Mirrors, mirrors
from tarmac.decide.endpoints.ports import ResolvedPort
from tarmac.decide.endpoints.servicefacts import EndpointPod, ServiceFacts
from tarmac.decide.endpoints.shares import shared_out

__all__ = [
    "Endpoint",
    "EndpointGroup",
    "EndpointPod",
    "EndpointsBuilder",
    "EndpointsFacts",
    "Grouping",
    "Mirrors",
    "ResolvedPort",
    "ServiceFacts",
    "grouped",
    "mirrors",
    "shared_out",
]
