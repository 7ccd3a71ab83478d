"""One machine as several hosts: a network namespace for each city, connected by a bridge that plays the internet."""

from __future__ import annotations

from tarmac.datapath.hosts.outside import (
    BadSegment,
    Segment,
    build_outside,
    outside_namespace,
    read_segment,
    remove_outside,
)
from tarmac.datapath.hosts.plan import CityHost, HostUnderlay, plan
from tarmac.datapath.hosts.underlay import build, free_subnet, remains, remove

__all__ = [
    "BadSegment",
    "CityHost",
    "HostUnderlay",
    "Segment",
    "build",
    "build_outside",
    "free_subnet",
    "outside_namespace",
    "plan",
    "read_segment",
    "remains",
    "remove",
    "remove_outside",
]
