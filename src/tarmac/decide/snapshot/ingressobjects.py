"""Resources that explanations of public addresses read."""

from __future__ import annotations

from typing import Final

from tarmac.api.declare import decoder
from tarmac.api.ingress import names
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.bgppeer import BGPPeer
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.decide.snapshot.egressobjects import NAMESPACES, SERVICES, SLICES, SOURCE_IP_CLASSES
from tarmac.decide.snapshot.snapshot import NODES, ResourceSource

ADDRESS_POOLS = ResourceSource(names.ADDRESS_POOLS, decoder(AddressPool))
PUBLIC_ADDRESSES = ResourceSource(names.PUBLIC_ADDRESSES, decoder(PublicAddress))
BGP_PEERS = ResourceSource(names.BGP_PEERS, decoder(BGPPeer))

INGRESS: Final = (ADDRESS_POOLS, BGP_PEERS, PUBLIC_ADDRESSES, SOURCE_IP_CLASSES, NAMESPACES, NODES, SERVICES, SLICES)
"""All resources that are read for Services with public addresses."""
