"""One machine as several hosts: a network namespace for each city, joined by a bridge that plays the internet."""

from __future__ import annotations

from tarmac.datapath.hosts.plan import CityHost, HostUnderlay, plan
from tarmac.datapath.hosts.underlay import build, free_subnet, remains, remove

__all__ = ["CityHost", "HostUnderlay", "build", "free_subnet", "plan", "remains", "remove"]
