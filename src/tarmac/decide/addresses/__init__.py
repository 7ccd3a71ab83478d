"""Ranges for networks, subnets of ranges, addresses of subnets, and numbers for networks on the wire.

Everything is computed from what is allocated already: hand in what exists, get what is free, lowest first. A range is
carved into one subnet for each context, class and family; a subnet hands out each address once and never its own
first address, its gateway (the second) or its broadcast address. Either all families an interface asks for get an
address or none does. What is full says which range that is and what would help.
"""

from __future__ import annotations

from tarmac.decide.addresses.interfaces import Assignment, assign, mac_address, release
from tarmac.decide.addresses.nodes import NodeAddresses
from tarmac.decide.addresses.numbers import FIRST_VNI, Numbers, allocate_vni, vni_numbers
from tarmac.decide.addresses.overlaps import Overlap, overlap
from tarmac.decide.addresses.packets import packet_size
from tarmac.decide.addresses.pool import Pool
from tarmac.decide.addresses.rangerefusals import range_refusal, refused_range
from tarmac.decide.addresses.routes import routes_of
from tarmac.decide.addresses.subnets import carve, default_range, range_of, subnet_prefix

__all__ = [
    "FIRST_VNI",
    "Assignment",
    "NodeAddresses",
    "Numbers",
    "Overlap",
    "Pool",
    "allocate_vni",
    "assign",
    "carve",
    "default_range",
    "mac_address",
    "overlap",
    "packet_size",
    "range_of",
    "range_refusal",
    "refused_range",
    "release",
    "routes_of",
    "subnet_prefix",
    "vni_numbers",
]
