"""One machine as several hosts: a network namespace for each city, connected by a bridge that plays the internet."""

from __future__ import annotations

from tarmac.datapath.hosts.nearby import Neighborhood, build_nearby, neighborhoods, remove_nearby
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
    "Neighborhood",
    "Segment",
    "build",
    "build_nearby",
    "build_outside",
    "free_subnet",
    "neighborhoods",
    "outside_namespace",
    "plan",
    "read_segment",
    "remains",
    "remove",
    "remove_nearby",
    "remove_outside",
]
