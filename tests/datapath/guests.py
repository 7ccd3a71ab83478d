"""A guest in the place of a pod: a kernel with only Ethernet to the router, configured by its seed.

Its interfaces are taps in a network namespace of its own. Frames are copied between each and the router's tap as QEMU
would, including virtio's header, so that everything that a machine could send arrives unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from collections.abc import Sequence
from ipaddress import ip_interface, ip_network
from pathlib import Path

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.datapath.interface import ROUTER
from tarmac.datapath.linux import taps
from tests.datapath.lab import Lab

_LARGEST = 70_000


class Guest:
    """The operating system of a machine with these taps, in the order of its interfaces."""

    def __init__(
        self, lab: Lab, namespace: Path, interfaces: Sequence[AttachedInterface], files: Sequence[io.FileIO]
    ) -> None:
        self._wires: list[tuple[io.FileIO, io.FileIO]] = []
        lab.command(namespace, "ip link set lo up")
        led: set[str] = set()
        for interface, router in zip(interfaces, files, strict=True):
            own = lab.inside(namespace, lambda interface=interface: taps.open_tap(interface.name))
            self._carry(own, router)
            _configure(lab, namespace, interface, leads=interface.network not in led)
            led.add(interface.network)

    def close(self) -> None:
        """Power off."""
        loop = asyncio.get_running_loop()
        for end in (end for wire in self._wires for end in wire):
            loop.remove_reader(end)
            end.close()
        self._wires.clear()

    def _carry(self, own: io.FileIO, router: io.FileIO) -> None:
        self._wires.append((own, router))
        for here, there in ((own, router), (router, own)):
            os.set_blocking(here.fileno(), False)
            asyncio.get_running_loop().add_reader(here, self._frames, here, there)

    def _frames(self, here: io.FileIO, there: io.FileIO) -> None:
        try:
            frame = os.read(here.fileno(), _LARGEST)
        except BlockingIOError:
            return
        except OSError:  # the router has removed its tap
            asyncio.get_running_loop().remove_reader(here)
            return
        with contextlib.suppress(OSError):
            os.write(there.fileno(), frame)


def _configure(lab: Lab, namespace: Path, interface: AttachedInterface, *, leads: bool) -> None:
    """Configure an interface like the seed: the subnet on the link, and IPv6 through the router's own address.

    Only the first interface on a network has routes.
    """
    link = interface.name
    lab.command(namespace, f"ip link set {link} address {interface.mac} mtu {interface.mtu} up")
    gateways: dict[int, str] = {}
    for written, gateway in zip(interface.addresses, interface.gateways, strict=True):
        address = ip_interface(written)
        gateways[address.version] = gateway if address.version == 4 else ROUTER
        host = f"{address.ip}/128 dev {link} nodad" if address.version == 6 else f"{address} dev {link}"
        lab.command(namespace, f"ip address add {host}")
    for route in map(ip_network, interface.routes if leads else ()):
        if route.version in gateways:
            lab.command(namespace, f"ip -{route.version} route add {route} via {gateways[route.version]} dev {link}")
