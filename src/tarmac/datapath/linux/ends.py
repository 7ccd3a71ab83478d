"""The router namespace's ends of the links of a Network's pods and machines on this node.

A pod has a veth pair with the other end in its namespace, a machine a tap through which a process reads and writes
frames. The router's end is the same for both: its name identifies the sandbox from the moment it exists, its alias
holds the full id, and its permanent neighbours are the addresses behind it. So a new process finds the links that a
killed one has created, and every step may be repeated.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from ipaddress import ip_interface
from pathlib import Path

from msgspec.structs import replace

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.datapath.interface import ROUTER, Traffic
from tarmac.datapath.linux import links, namespaces, routing, taps
from tarmac.datapath.linux.naming import END_PREFIX, ROUTER_MAC, end_name, interface_mac
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.nftables import Nftables, Table
from tarmac.datapath.linux.pod import gateway_of
from tarmac.datapath.linux.routing import Route, host_prefix
from tarmac.datapath.linux.tables.antispoof import LinkEnd, antispoof


@dataclass(frozen=True, slots=True)
class RouterLink:
    """The router's end of a link. The sandbox is unknown if its creator was killed right after creating it."""

    index: int
    sandbox_id: str
    end: LinkEnd


class RouterEnds:
    """The router's ends in the namespace at `path`, in which both sockets were opened."""

    def __init__(self, path: Path, netlink: Netlink, nftables: Nftables) -> None:
        self._path = path
        self._netlink = netlink
        self._nftables = nftables
        self.all = self._found()

    def attach(self, sandbox_id: str, position: int, interface: AttachedInterface, namespace: int, most: int) -> None:
        """Create one link of a pod, into the namespace of an open file, for packets of at most `most` bytes."""
        name, made = end_name(sandbox_id, position), _completed(sandbox_id, position, interface, most)
        self._netlink.request([links.veth(name, ROUTER_MAC, made.mtu, made.name, made.mac, namespace)])
        self._connect(sandbox_id, name, made)

    def attach_tap(self, sandbox_id: str, position: int, interface: AttachedInterface, most: int) -> AttachedInterface:
        """Create one link of a machine; return the interface with its hardware address and MTU."""
        name, made = end_name(sandbox_id, position), _completed(sandbox_id, position, interface, most)
        with namespaces.inside(self._path):
            if links.link(self._netlink, name) is None:  # an existing one may be in use
                taps.make(name)
            taps.prepare(name)
        self._connect(sandbox_id, name, made)
        return made

    def open_tap(self, name: str, *, further: bool) -> io.FileIO:
        """Open a link of a machine, or a further queue of it, to read and write frames. Raises OSError."""
        with namespaces.inside(self._path):
            found = links.link(self._netlink, name)
            # The kernel gives queues of a tap to as many processes as ask; it has a carrier while one has it open.
            if found is not None and found.carrier and not further:
                raise OSError(errno.EBUSY, f"another process has {name} open")
            return taps.open_tap(name)

    def traffic(self) -> Iterator[tuple[str, Traffic]]:
        """Yield the bytes that machines received and sent on each link, by sandbox: the router's counters, swapped."""
        guests = {each.index: each.sandbox_id for each in self.all if each.end.guest}
        for link in self._links() if guests else ():
            if link.index in guests:
                yield guests[link.index], Traffic(received=link.transmitted, transmitted=link.received)

    def settle(self, sandbox_id: str, position: int) -> None:
        """Begin to send on a link, once its other end is up."""
        links.settle(self._netlink, end_name(sandbox_id, position))

    def remove(self, gone: Sequence[RouterLink]) -> None:
        """Block all traffic through these links.

        Links of pods are deleted with their namespaces, many at a time; one by one the kernel would take fifty
        milliseconds for each, and block all other changes. `clear` removes those that stay. A tap is deleted at once:
        no namespace takes it along, and a process that has it open must not send any more.
        """
        # Forgotten first, and then blocked: the source check that follows has no entry for them, so their packets are
        # dropped.
        self.all = [each for each in self.all if each not in gone]
        self._nftables.ensure(self.antispoof(), verify=False)
        indexes = {each.index for each in gone}
        stale = [each for each in routing.routes(self._netlink) if each.link in indexes]
        self._netlink.request([routing.no_route(each) for each in stale])
        self._netlink.request([links.deletion(each.index) for each in gone if each.end.guest])

    def clear(self) -> None:
        """Remove links without a sandbox."""
        known = {each.index for each in self.all}
        stale = [link for link in self._links() if link.index not in known]
        self._netlink.request([links.deletion(link.index) for link in stale])

    def antispoof(self) -> tuple[Table, Table]:
        """Return the tables that check the packets from these links."""
        guests: dict[str, list[str]] = {}
        for each in self.all:
            if each.end.guest and each.sandbox_id:
                guests.setdefault(each.sandbox_id, []).extend(each.end.addresses)
        known = [_with_other_addresses(each.end, guests.get(each.sandbox_id, ())) for each in self.all if each.end.mac]
        return antispoof(END_PREFIX, known)

    def prefixes(self) -> Set[str]:
        """Return the addresses behind these links, as prefixes."""
        return {host_prefix(address) for each in self.all for address in each.end.addresses}

    def _connect(self, sandbox_id: str, name: str, interface: AttachedInterface) -> None:
        """Configure a link that has been created."""
        link = links.link(self._netlink, name)
        if link is None:
            raise OSError(f"link {name} has vanished")
        addresses = tuple(str(ip_interface(each).ip) for each in interface.addresses)
        end = LinkEnd(name, interface.mac, addresses, link.kind == taps.KIND)
        # The source check must be in force before the link can carry anything.
        self.all = [each for each in self.all if each.end.link != name] + [RouterLink(link.index, sandbox_id, end)]
        self._nftables.ensure(self.antispoof(), verify=False)
        # Setting even the same hardware address would make a link drop its permanent neighbours for a moment.
        mac = ROUTER_MAC if link.mac != ROUTER_MAC else ""
        own = [gateway for version in (4, 6) if (gateway := gateway_of(interface, version))]
        self._netlink.request(
            [
                links.setting(link.index, alias=sandbox_id, mac=mac, mtu=interface.mtu if end.guest else 0),
                *(routing.address(link.index, gateway) for gateway in own),
                *((routing.address(link.index, ROUTER, 64),) if end.guest else ()),
                *(routing.neighbour(link.index, address, interface.mac) for address in addresses),
                *(routing.route(Route(host_prefix(address), link.index)) for address in addresses),
            ]
        )

    def _found(self) -> list[RouterLink]:
        known = routing.neighbours(self._netlink)
        found: list[RouterLink] = []
        for link in self._links():
            addresses = known.get(link.index, {})
            end = LinkEnd(link.name, next(iter(addresses.values()), ""), tuple(addresses), link.kind == taps.KIND)
            found.append(RouterLink(link.index, link.alias, end))
        return found

    def _links(self) -> list[links.Link]:
        return [link for link in links.links(self._netlink) if link.name.startswith(END_PREFIX)]


def _with_other_addresses(end: LinkEnd, addresses: Sequence[str]) -> LinkEnd:
    """Return the end with the addresses of its guest behind other links of the network."""
    return end._replace(beside=tuple(each for each in addresses if each not in end.addresses)) if end.guest else end


def _completed(sandbox_id: str, position: int, interface: AttachedInterface, most: int) -> AttachedInterface:
    """Return the interface with the hardware address and MTU that its link will have."""
    mtu = min((limit for limit in (interface.mtu, most) if limit), default=1500)
    return replace(interface, mac=interface.mac or interface_mac(sandbox_id, position), mtu=mtu)
