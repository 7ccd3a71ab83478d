"""Resources that explanations and plans of ExternalServices read."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tarmac.api.declare import decoder
from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.forwarding import Forwarder, Gateway
from tarmac.api.egress.names import GROUP
from tarmac.api.egress.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.decide.snapshot.snapshot import LOCATIONS, NETWORKS, NODES, PODS, ResourceSource

_plain = msgspec.json.Decoder(dict[str, Any]).decode

EXTERNAL_SERVICES = ResourceSource(f"{GROUP}/externalservices", decoder(ExternalService))
SOURCE_IP_CLAIMS = ResourceSource(f"{GROUP}/sourceipclaims", decoder(SourceIPClaim))
SOURCE_IP_CLASSES = ResourceSource(f"{GROUP}/sourceipclasses", decoder(SourceIPClass))
SOURCE_IPS = ResourceSource(f"{GROUP}/sourceips", decoder(SourceIP))
FORWARDERS = ResourceSource(f"{GROUP}/forwarders", decoder(Forwarder))
GATEWAYS = ResourceSource(f"{GROUP}/gateways", decoder(Gateway))
NAMESPACES = ResourceSource("core/namespaces", _plain)
SERVICES = ResourceSource("core/services", _plain)
SLICES = ResourceSource("discovery.k8s.io/endpointslices", _plain)

EXTERNAL: Final = (
    EXTERNAL_SERVICES,
    SOURCE_IP_CLAIMS,
    SOURCE_IP_CLASSES,
    SOURCE_IPS,
    FORWARDERS,
    GATEWAYS,
    LOCATIONS,
    NAMESPACES,
    NETWORKS,
    NODES,
    PODS,
    SERVICES,
    SLICES,
)
"""All resources that are read for ExternalServices."""
