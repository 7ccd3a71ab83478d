"""Watches frames of real gateways: each source address belongs to the platform and to one gateway at a time.

The watcher does not know when a lease ends. But one gateway at a time carries an address, and it moves as often as its
epoch grows: frames that alternated between two gateways more often came from two owners at once.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tarmac.apps.cities.layout import CityLayout
from tarmac.datapath.linux.egress.probing import question
from tarmac.datapath.linux.naming import outside_mac
from tests.datapath.eye import Eye, Frame

INTERFACE = "outside0"
ADDRESSES = {"192.168.122.200", "192.168.122.201", "fd00:122::201", "fd00:122::202"}
"""The addresses that examples claim."""


class Watch:
    """A capture from now on until `close`."""

    def __init__(self, outside: Path, cities: Mapping[str, CityLayout]) -> None:
        self._cities = {_port(outside, city.host.namespace): city for city in cities.values()}
        self._own = {
            port: {each["local"] for link in _addresses(city.host.namespace) for each in link["addr_info"]}
            for port, city in self._cities.items()
        }
        self._gateway_macs = {
            port: outside_mac(city.host.addresses[0], INTERFACE) for port, city in self._cities.items()
        }
        self._eye = Eye(outside, self._cities)

    @property
    def frames(self) -> list[Frame]:
        return self._eye.frames

    def close(self) -> None:
        self._eye.look_away()

    def judge(self) -> None:
        """Fail if a frame has a wrong source."""
        assert not self._eye.missed, f"{self._eye.missed} frames came too fast to be looked at"
        wrong = [each for each in self.frames if not self._is_right(each)]
        assert not wrong, f"{len(wrong)} frames of {len(self.frames)} have a wrong source: {wrong[:5]}"
        spoken = [each for each in self.frames if each.source in ADDRESSES]
        assert spoken, "no frame was captured"

    def owners(self, address: str, since: float) -> list[str]:
        """Return the nodes that have sent from an address since then, in order."""
        found: list[str] = []
        for each in self.frames:
            if each.at >= since and each.source == address:
                node = self._cities[each.port].node
                if not found or found[-1] != node:
                    found.append(node)
        return found

    def _is_right(self, frame: Frame) -> bool:
        if frame.hardware != self._gateway_macs[frame.port]:
            return frame.source in self._own[frame.port] or frame.source in ("::", "0.0.0.0")
        if frame.source in ("0.0.0.0", "::"):
            return any(frame.content == question(frame.hardware, address) for address in ADDRESSES)
        return frame.speaks_as <= ADDRESSES


def _port(outside: Path, city: Path) -> str:
    """The name of a city's link at the other end."""
    (link,) = json.loads(_ip(city, "link", "show", INTERFACE))
    (peer,) = [each for each in json.loads(_ip(outside, "link")) if each["ifindex"] == link["link_index"]]
    return peer["ifname"]


def _addresses(city: Path) -> list[dict[str, list[dict[str, str]]]]:
    return json.loads(_ip(city, "address", "show", INTERFACE))


def _ip(namespace: Path, *words: str) -> str:
    command = ["nsenter", f"--net={namespace}", "ip", "-json", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
