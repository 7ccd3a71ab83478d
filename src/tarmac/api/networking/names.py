"""Names that the networking kinds share."""

from __future__ import annotations

GROUP = "networking.datumapis.com"
API_VERSION = f"{GROUP}/v1alpha"

TOPOLOGY_CITY_CODE = "topology.datum.net/city-code"
TOPOLOGY_REGION = "topology.datum.net/region"

LABEL_LOCATION = "topology.datum.net/location"
"""Label of a node: the Location it belongs to."""
