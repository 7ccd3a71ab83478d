"""Names that the kinds for connections from outside share."""

from __future__ import annotations

from typing import Final

from tarmac.api.networking.names import API_VERSION, GROUP

__all__ = [
    "ADDRESS_FINALIZER",
    "ADDRESS_POOLS",
    "ANNOTATION_ADDRESSES",
    "ANNOTATION_POOL",
    "ANNOTATION_SHARED",
    "API_VERSION",
    "BGP_PEERS",
    "GROUP",
    "LABEL_ADDRESS",
    "LOAD_BALANCER_CLASS",
    "PASSWORD_KEY",
    "POOL_FINALIZER",
    "PUBLIC_ADDRESSES",
    "SECRET_NAMESPACE",
    "SERVICE_FINALIZER",
    "WORKLOAD_FINALIZER",
]

ANNOTATION_POOL: Final = f"{GROUP}/address-pool"
"""Annotation of a Service or Workload: the AddressPool to take its addresses from."""

ANNOTATION_ADDRESSES: Final = f"{GROUP}/addresses"
"""Annotation of a Service or Workload: requested addresses, separated by commas, at most one for each family."""

ANNOTATION_SHARED: Final = f"{GROUP}/shared-address"
"""Annotation of a Service: Services of its namespace with the same value share an address."""

LABEL_ADDRESS: Final = f"{GROUP}/address"
"""Label of an EndpointSlice of a Workload: its endpoints answer at the Workload's public addresses."""

LOAD_BALANCER_CLASS: Final = f"{GROUP}/pool"
"""The `loadBalancerClass` of Services that get their address from an AddressPool; so do Services without a class."""

SECRET_NAMESPACE: Final = "kube-system"
PASSWORD_KEY: Final = "password"
"""The namespace of a BGPPeer's Secret, and the key of the password in it."""

SERVICE_FINALIZER: Final = f"{GROUP}/public-address"
WORKLOAD_FINALIZER: Final = f"{GROUP}/public-address"
ADDRESS_FINALIZER: Final = f"{GROUP}/address-protection"
POOL_FINALIZER: Final = f"{GROUP}/pool-protection"

ADDRESS_POOLS: Final = f"{GROUP}/addresspools"
PUBLIC_ADDRESSES: Final = f"{GROUP}/publicaddresses"
BGP_PEERS: Final = f"{GROUP}/bgppeers"
"""Storage buckets of the kinds."""
