"""Creates and removes the bridge, the cities' namespaces and their links.

Idempotent: existing objects are kept, so containers continue to communicate while the program that created them is
replaced. Packets that leave the bridge are masqueraded behind the machine, which requires forwarding; if it was off
before, a file in the run folder records that, and it is turned off again when the hosts go.

Everything enters namespaces with the calling thread, so call it from a thread that may (`asyncio.to_thread`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, ip_address
from itertools import chain
from pathlib import Path
from typing import Final

from tarmac.datapath.hosts.plan import MTU, CityHost, HostUnderlay, identity, subnet_choices
from tarmac.datapath.hosts.wiring import bridge, index_of, member
from tarmac.datapath.linux import links, namespaces, routing
from tarmac.datapath.linux.netlink import Netlink, attributes

_GETADDR = 22
_ADDRESS_INFO: Final = struct.Struct("=BBBBI")
_FORWARDING: Final = {"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1"}
_LOOPBACK: Final = "lo"


def free_subnet(data_dir: Path) -> IPv4Network:
    """Return a subnet without addresses of other links on this machine; that of the bridge, if it exists."""
    netlink = Netlink()
    try:
        # An existing bridge keeps its subnet: another one would cut off containers that still run.
        own = links.link(netlink, f"tm{identity(data_dir)}")
        taken = dict(_addresses(netlink))
    finally:
        netlink.close()
    for subnet in subnet_choices(data_dir):
        if all(own is not None and index == own.index for address, index in taken.items() if address in subnet):
            return subnet
    raise OSError("every subnet of 198.18.0.0/15 is in use on this machine; free one of them")


def build(underlay: HostUnderlay) -> None:
    """Create everything. Raises OSError."""
    underlay.run.mkdir(parents=True, exist_ok=True)
    netlink = Netlink()
    try:
        netlink.request([bridge(underlay.bridge, MTU)])
        own_bridge = index_of(netlink, underlay.bridge)
        lengths = [subnet.prefixlen for subnet in underlay.subnets]
        own = [routing.address(own_bridge, *pair) for pair in zip(underlay.gateways, lengths, strict=True)]
        netlink.request([links.setting(own_bridge), *own])
        for city in underlay.cities:
            _connect(netlink, own_bridge, underlay, city)
    finally:
        netlink.close()
    _masquerade(underlay)


def remove(underlay: HostUnderlay) -> None:
    """Remove everything, also after a partial failure."""
    # Every step tolerates absence, so a removal that was interrupted is completed by the next one.
    for namespace in _namespaces(underlay):
        namespaces.remove(namespace)
    netlink = Netlink()
    try:
        mine = [link for link in links.links(netlink) if _belongs_to(link.name, underlay)]
        netlink.request([links.deletion(link.index) for link in mine])
    finally:
        netlink.close()
    subprocess.run(["nft", "delete", "table", "inet", underlay.table], check=False, capture_output=True)
    for name in _FORWARDING:
        if _mark(underlay, name).exists():
            namespaces.set_controls({name: "0"})
    shutil.rmtree(underlay.run, ignore_errors=True)


def remains(underlay: HostUnderlay) -> list[str]:
    """Return descriptions of the objects that still exist."""
    netlink = Netlink()
    try:
        found = [f"link {link.name}" for link in links.links(netlink) if _belongs_to(link.name, underlay)]
    finally:
        netlink.close()
    found += [f"network namespace {path}" for path in _namespaces(underlay) if namespaces.exists(path)]
    listed = subprocess.run(["nft", "list", "tables"], check=False, capture_output=True, text=True).stdout.split()
    return found + ([f"nftables table {underlay.table}"] if underlay.table in listed else [])


def _connect(netlink: Netlink, onto: int, underlay: HostUnderlay, city: CityHost) -> None:
    namespaces.create(city.namespace)
    inside = os.open(city.namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if links.link(netlink, city.link) is None:
            netlink.request([links.veth(city.link, _mac(city, 0), MTU, "eth0", _mac(city, 1), inside)])
    finally:
        os.close(inside)
    netlink.request([member(index_of(netlink, city.link), onto)])
    with namespaces.inside(city.namespace):
        # A router advertisement on the bridge would change the routes of the city.
        namespaces.set_controls({**_FORWARDING, "ipv6/conf/eth0/accept_ra": "0"})
        there = Netlink()
    try:
        outside = index_of(there, "eth0")
        own = [
            routing.address(outside, address, subnet.prefixlen)
            for address, subnet in zip(city.addresses, underlay.subnets, strict=True)
        ]
        there.request([links.setting(index_of(there, _LOOPBACK)), links.setting(outside), *own])
        four, six = underlay.gateways
        ways = [routing.Route("0.0.0.0/0", outside, four), routing.Route("::/0", outside, six)]
        there.request([routing.route(way) for way in ways])
    finally:
        there.close()


def _masquerade(underlay: HostUnderlay) -> None:
    for name, wanted in _FORWARDING.items():
        if namespaces.control(name) == "0":
            # The mark first: after a crash in between, `remove` must still turn forwarding off.
            _mark(underlay, name).touch()
            namespaces.set_controls({name: wanted})
    four, six = underlay.subnets
    rules = f"""
        table inet {underlay.table} {{}}
        delete table inet {underlay.table}
        table inet {underlay.table} {{
            chain out {{
                type nat hook postrouting priority srcnat; policy accept;
                ip saddr {four} oifname != "{underlay.bridge}" masquerade
                ip6 saddr {six} oifname != "{underlay.bridge}" masquerade
            }}
        }}
    """
    made = subprocess.run(["nft", "-f", "-"], input=rules, check=False, capture_output=True, text=True)
    if made.returncode:
        raise OSError(f"nft refuses the rules that let cities out: {made.stderr.strip()}")


def _addresses(netlink: Netlink) -> Iterator[tuple[IPv4Address, int]]:
    for _, body in netlink.dump(_GETADDR, _ADDRESS_INFO.pack(socket.AF_INET, 0, 0, 0, 0)):
        *_, index = _ADDRESS_INFO.unpack_from(body)
        found = attributes(body, _ADDRESS_INFO.size)
        address = ip_address(found[2] if 2 in found else found[1])
        if isinstance(address, IPv4Address):
            yield address, index


def _namespaces(underlay: HostUnderlay) -> list[Path]:
    """Return all namespaces, including those of cities that are not in the plan any more, and those outside."""
    outside = (underlay.run.glob(each) for each in ("outside", "router-*", "near-*"))
    return sorted([*underlay.run.glob("*/netns"), *chain.from_iterable(outside)])


def _belongs_to(link: str, underlay: HostUnderlay) -> bool:
    return link.startswith(f"tm{underlay.id[:6]}")


def _mark(underlay: HostUnderlay, control: str) -> Path:
    return underlay.run / f"was-off-{control.replace('/', '-')}"


def _mac(city: CityHost, end: int) -> str:
    """Return a locally administered hardware address, the same at every start."""
    return "02:" + hashlib.sha256(f"{city.link}/{end}".encode()).digest()[:5].hex(":")
