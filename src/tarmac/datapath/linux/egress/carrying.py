"""The addresses that a node serves, and their remaining time. Used by the lease thread and by the datapath's thread.

The kernel ends the service: an address is live through elements that time out, in the table that lets packets through,
in the guard and in the one for ARP. All three are renewed in one transaction. A change of rules reads the elements to
restore from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tarmac.base.clock import Clock
from tarmac.datapath.egress import SourceAddress
from tarmac.datapath.linux import links, routing
from tarmac.datapath.linux.egress.outside import DUMMY_ADDRESS, Announcer
from tarmac.datapath.linux.egress.probing import probe
from tarmac.datapath.linux.netlink import Netlink, NetlinkMessage
from tarmac.datapath.linux.routing import Route
from tarmac.datapath.linux.ruleset import Ruleset
from tarmac.datapath.linux.setelements import put, take
from tarmac.datapath.linux.tables.gateway import NAME, Marked, live, living, marks

_LIVES: Final = re.compile(r"(0x[0-9a-f]+) timeout \S+ expires ((?:\d+(?:ms|s|m|h|d))+)")
_TIMES: Final = re.compile(r"(\d+)(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class OwnableAddress:
    """An address that this node may serve: its link, and the number of the egress route through it.

    `routes` are those of a dedicated link, which exist only while the link is up.
    """

    source: SourceAddress
    link: str
    index: int
    number: int
    mac: str
    routes: tuple[Route, ...] = ()

    @property
    def virtual(self) -> bool:
        """True if the address has a dedicated link and a hardware address of its own."""
        return self.source.outside is not None and self.source.outside.virtual

    def arrival(self) -> list[NetlinkMessage]:
        """Return the messages that put the address on its link. A link that was down has lost its routes."""
        up = [links.setting(self.index)] if self.virtual else []
        return [*up, routing.address(self.index, self.source.address), *map(routing.route, self.routes)]

    def departure(self) -> list[NetlinkMessage]:
        """Return the messages that remove the address from its link."""
        down = [links.setting(self.index, up=False)] if self.virtual else []
        return [routing.no_address(self.index, self.source.address), *down]

    @property
    def marked(self) -> Marked:
        """The address and its mark."""
        return self.source.address, self.source.mark


class AddressCarrier:
    """The addresses of one namespace. It must be created by a thread inside that namespace.

    `table` is the one that lets packets through.
    """

    def __init__(self, namespace: Path, ruleset: Ruleset, clock: Clock, table: str = NAME) -> None:
        self._namespace, self._clock, self._table = namespace, clock, table
        self._ruleset, self._netlink = ruleset, Netlink()
        self._announcer = Announcer(namespace)
        self.carriable: Mapping[str, OwnableAddress] = {}
        self._marks: Mapping[str, int] = {}
        self._gateways: Mapping[str, int] = {}
        self._owners: dict[str, str] = {}
        self._probed: set[str] = set()  # addresses with dedicated links that are up for a probe
        self._node_address = ""

    def serve(
        self,
        node_address: str,
        marks: Mapping[str, int],
        carriable: Mapping[str, OwnableAddress],
        gateways: Mapping[str, int],
    ) -> None:
        """Set the marks of addresses, the addresses that this node may serve, and the route numbers of gateways."""
        with self._ruleset.lock:
            self._node_address, self._marks, self._gateways = node_address, marks, gateways
            # Under the lock: the lease thread must not renew an address by the link of an earlier configuration.
            self.carriable = carriable

    def follow(self, owners: Mapping[str, str]) -> None:
        """Route packets of addresses to these nodes."""
        with self._ruleset.lock:
            # Kept even if the table does not exist yet: a later one is filled from here.
            self._owners |= owners
            self._ruleset.refill("inet", self._table, "owners", marks(self.owners_by_mark()))

    def owners_by_mark(self) -> dict[int, int]:
        """Return the route numbers of owners by mark, without addresses that have no known owner."""
        found: dict[int, int] = {}
        for address, node in self._owners.items():
            own = self.carriable.get(address)
            number = (own.number if own else None) if node == self._node_address else self._gateways.get(node)
            if number is not None and address in self._marks:
                found[self._marks[address]] = number
        return found

    def carry(self, seconds: Mapping[str, float]) -> None:
        """Make addresses live for so many seconds. New ones are put on their link first."""
        asked = self._clock.monotonic()
        with self._ruleset.lock:
            # A change of rules may have held the lock for long, and the leases have run down meanwhile.
            waited = self._clock.monotonic() - asked
            left = {each: rest - waited for each, rest in seconds.items() if each in self.carriable and rest > waited}
            places = [self.carriable[each] for each in left]
            new = [each for each in places if self._owners.get(each.source.address) != self._node_address]
            # On its link before it is live: packets that are let through must find their address.
            self._netlink.request([message for each in new for message in each.arrival()])
            if places:
                self._renew({each.marked: left[each.source.address] for each in places}, at_once=not new)
            if new:
                # Last: until the address is live, packets routed here would be dropped by the guard.
                self.follow({each.source.address: self._node_address for each in new})

    def _renew(self, lives: Mapping[Marked, float], at_once: bool) -> None:
        """Renew elements.

        Adding an existing element does not change it, so it is deleted first. The kernel rejects the whole transaction
        if an element has just timed out or never existed; such elements are added before they are deleted.
        """
        coming, going = _elements(lives, self._table)
        if at_once:
            with suppress(FileNotFoundError):
                return self._ruleset.passing([*going, *coming])
        return self._ruleset.passing([*coming, *going, *coming])

    def drop(self, addresses: Iterable[str]) -> None:
        """End the service of addresses, then remove them from their links."""
        with self._ruleset.lock:
            gone = [self.carriable[each] for each in addresses if each in self.carriable]
            if not gone:
                return
            lives = {each.marked: 1.0 for each in gone}
            coming, going = _elements(lives, self._table)
            self._ruleset.passing([*coming, *going])  # added first, since some may have timed out
            # Only after the elements: until they are gone, packets with the address may still leave.
            self._netlink.request([message for each in gone for message in each.departure()])
            own = [each.source.address for each in gone]
            # Only if still ours: the lease thread may have announced the next owner already.
            self.follow({each: "" for each in own if self._owners.get(each) == self._node_address})

    def announce(self, addresses: Iterable[str]) -> None:
        """Announce addresses on their segments if they are live at this moment: no rule filters announcements."""
        with self._ruleset.lock:
            living = self.carried()
            # The lock is held since the check: an address dropped in between would draw packets to a node that does not
            # serve it.
            for each in addresses:
                if each in living:
                    place = self.carriable[each]
                    self._announcer.announce(place.link, place.mac, each)

    def probe(self, address: str) -> str:
        """Return the hardware address of another host that uses an address on its segment; empty if none answers."""
        place = self.carriable.get(address)
        if place is None or place.source.outside is None:
            return ""
        if not place.virtual:
            return probe(self._namespace, place.link, place.mac, address, self._clock)
        # The dedicated link is down while the address is not served. The caller has the votes, so no other node serves
        # it.
        with self._ruleset.lock:
            # Recorded: `tidy` would otherwise take the link down in the middle of the probe.
            self._probed.add(address)
            self._netlink.request([links.setting(place.index)])
        try:
            return probe(self._namespace, place.link, place.mac, address, self._clock)
        finally:
            with self._ruleset.lock:
                self._probed.discard(address)
                # Served since the probe began: taking the link down now would cut the address off.
                if address not in self.carried():
                    self._netlink.request([links.setting(place.index, up=False)])

    def carried(self) -> dict[str, float]:
        """Return the live addresses with their remaining seconds."""
        by_mark = {each.source.mark: address for address, each in self.carriable.items()}
        shown = self._ruleset.listing(f"inet {self._table} live")
        found = {int(mark, 16): _duration(left) for mark, left in _LIVES.findall(shown)}
        return {by_mark[mark]: left for mark, left in found.items() if mark in by_mark}

    def restored(self) -> str:
        """Return the commands that restore the live addresses with their remaining time in replaced tables."""
        return live({self.carriable[each].marked: left for each, left in self.carried().items()}, self._table)

    def tidy(self) -> None:
        """Remove addresses from links that must not have them: left by an earlier process, or no longer served here.

        Live addresses are put on their link, which may have changed.
        """
        living = self.carried()
        at_home = {(self.carriable[each].index, each) for each in living}
        for index in {each.index for each in self.carriable.values() if not each.virtual}:
            # The dummy address stays: with its last address a link loses all its routes.
            found = {(index, each) for each in routing.addresses(self._netlink, index) - {DUMMY_ADDRESS}}
            self._netlink.request([routing.no_address(*each) for each in sorted(found - at_home)])
        virtual = [each for each in self.carriable.values() if each.virtual]
        there = [self.carriable[each] for each in living]
        idle = [each for each in virtual if each.source.address not in living.keys() | self._probed]
        self._netlink.request([message for each in there for message in each.arrival()])
        self._netlink.request([links.setting(each.index, up=False) for each in idle])
        self._tidy_routes(virtual)
        # Timed out without `drop`: packets must not be routed to an owner that serves no more.
        lapsed = [each for each, node in self._owners.items() if node == self._node_address and each not in living]
        self.follow(dict.fromkeys(lapsed, ""))

    def _tidy_routes(self, virtual: Sequence[OwnableAddress]) -> None:
        """Remove outdated routes of dedicated links: of an earlier segment or router."""
        wanted = {route for each in virtual for route in each.routes}
        tables = {route.table for route in wanted}
        stale = [each for each in routing.routes(self._netlink, tables) if each not in wanted] if tables else []
        self._netlink.request([routing.no_route(each) for each in stale])

    def close(self) -> None:
        """Close sockets; addresses stay live."""
        self._announcer.close()
        self._netlink.close()


def _elements(lives: Mapping[Marked, float], table: str) -> tuple[list[NetlinkMessage], list[NetlinkMessage]]:
    """Return the messages that add the elements of live addresses, and those that delete them."""
    sets = living(lives, table).items()
    coming = [each for name, of in sets for each in put(name, ((own.key, own.milliseconds) for own in of))]
    return coming, [each for name, of in sets for each in take(name, (own.key for own in of))]


def _duration(text: str) -> float:
    return sum(int(number) * _SECONDS[unit] for number, unit in _TIMES.findall(text))
