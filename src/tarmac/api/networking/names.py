"""Names that the networking kinds share."""

from __future__ import annotations

GROUP = "networking.datumapis.com"
API_VERSION = f"{GROUP}/v1alpha"

TOPOLOGY_CITY_CODE = "topology.datum.net/city-code"
TOPOLOGY_REGION = "topology.datum.net/region"

LABEL_LOCATION = "topology.datum.net/location"
"""Label of a node: the Location it belongs to."""

ANNOTATION_INTERFACES = f"{GROUP}/interfaces"
"""Annotation of an Instance and its Pod: the interfaces with their addresses, as `interfaces.encode_interfaces` writes
them. It is written once and never changes."""

LOCATION_FINALIZER = f"{GROUP}/location-in-use"
"""Keeps a Location while a deployment is assigned to it."""

NETWORK_FINALIZER = f"{GROUP}/network-controller"
"""Keeps a Network until what was made of it in each place is gone."""

DEFAULT_NETWORK = "default"
ANNOTATION_DEFAULT_NETWORK = f"{GROUP}/default-network"
"""Annotation of a namespace: `none` means that it gets no default Network."""
