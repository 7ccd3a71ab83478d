"""Address management: ranges of networks, subnets of ranges, addresses of subnets, and VNIs of networks.

Everything is computed from the existing allocations: the caller passes them in and gets the lowest free value. A range
is carved into one subnet for each context, class and family; a subnet assigns each address once and never its own first
address, its gateway (the second) or its broadcast address. An interface gets an address of each requested family or
none at all. The refusal of an exhausted range names the range and a remedy.
"""

from __future__ import annotations

from tarmac.decide.addresses.interfaceaddresses import (
    FIRST_VNI,
    Assignment,
    Numbers,
    SubnetPool,
    allocate_vni,
    assign,
    mac_address,
    release,
    vni_numbers,
)
from tarmac.decide.addresses.mtu import packet_size, underlay_objection
from tarmac.decide.addresses.nodeindex import NodeAddresses
from tarmac.decide.addresses.overlaps import Overlap, overlap
from tarmac.decide.addresses.rangerefusals import keeps_range, range_refusal, refused_range
from tarmac.decide.addresses.routes import routes_of
from tarmac.decide.addresses.subnets import carve, default_range, range_of, subnet_prefix

__all__ = [
    "FIRST_VNI",
    "Assignment",
    "NodeAddresses",
    "Numbers",
    "Overlap",
    "SubnetPool",
    "allocate_vni",
    "assign",
    "carve",
    "default_range",
    "keeps_range",
    "mac_address",
    "overlap",
    "packet_size",
    "range_of",
    "range_refusal",
    "refused_range",
    "release",
    "routes_of",
    "subnet_prefix",
    "underlay_objection",
    "vni_numbers",
]
