"""One Network's part in external services: the link `egress` of its router namespace, and the rules for its use.

Transit addresses have numbers here, which connections carry as marks. The kernel's table holds the assignment, so a new
process does not reuse a number for another transit address.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Final

from tarmac.datapath.egress import Arrival, Departure, TranslatedConnection
from tarmac.datapath.linux import conntrack, links, namespaces, routing
from tarmac.datapath.linux.egress.revoking import at_pods
from tarmac.datapath.linux.naming import EGRESS, EGRESS_HOP, EGRESS_MAC, leg_name
from tarmac.datapath.linux.netlink import NETFILTER, Netlink
from tarmac.datapath.linux.policyrouting import RoutingRule, ensure_rules, present_rules
from tarmac.datapath.linux.routing import Route
from tarmac.datapath.linux.ruleset import Ruleset
from tarmac.datapath.linux.tables.forwarding import INWARD, NAME, ROUTED, forwarding
from tarmac.datapath.linux.tables.text import FAMILIES

_TABLE: Final = 116
_RULE: Final = RoutingRule(116, _TABLE, ROUTED, 0xFFFFFFFF)


class Leg:
    """External services of a router namespace. Used from the datapath's thread only."""

    def __init__(self, path: Path) -> None:
        self.name = leg_name(path.name)
        self._path = path
        self.identity = path.stat().st_ino  # differs for a recreated namespace
        with namespaces.inside(path):
            # Before any connection: counters and start times exist only for those that begin afterwards.
            namespaces.set_controls(conntrack.CONTROLS)
            self._netlink, self._conntrack, self._ruleset = Netlink(), Netlink(NETFILTER), Ruleset()
        try:
            self._numbers = {
                transit: int(number)
                for family in FAMILIES
                for number, transit in self._ruleset.elements("inet", NAME, f"transit{family}")
            }
        except BaseException:
            self.close()
            raise
        self._allowed: set[Departure | Arrival] | None = None
        self._last: tuple[Sequence[Departure], Sequence[Arrival]] = (), ()

    def lead(self, mtu: int, largest: int) -> None:
        """Route marked packets into the link, whose other end exists by now, with at most `largest` bytes.

        Oversized packets are rejected here: it is the last place on the way that knows the pod.
        """
        smaller = largest if largest < mtu else 0
        link = links.link(self._netlink, EGRESS)
        if link is None:
            raise OSError(f"the link {EGRESS} of {self._path.name} has vanished")
        self._netlink.request(
            [
                links.setting(link.index, mtu=mtu),
                routing.neighbour(link.index, EGRESS_HOP, EGRESS_MAC),
                *(
                    routing.route(Route(each, link.index, EGRESS_HOP, _TABLE, smaller))
                    for each in ("0.0.0.0/0", "::/0")
                ),
            ]
        )
        # After the routes: with an empty table, marked packets would fall through to the main table.
        ensure_rules(self._netlink, present_rules(self._netlink) | {_RULE})  # others are those of public addresses
        links.settle(self._netlink, EGRESS)

    def allow(self, departures: Sequence[Departure], arrivals: Sequence[Arrival]) -> None:
        """Allow exactly these rules, and end connections that are no longer allowed."""
        # Before the rules, which name the numbers. A number in use never changes: tracked connections carry it.
        self._number({each.transit for each in (*departures, *arrivals)})
        self._ruleset.ensure([forwarding(departures, arrivals, self._numbers)])
        self._last = departures, arrivals
        before, self._allowed = self._allowed, set(chain(departures, arrivals))
        # Only after a withdrawal: reading the table takes the kernel ten milliseconds and more.
        if before is None or before - self._allowed:
            conntrack.forget(self._conntrack, at_pods(departures, arrivals, self._numbers))

    def mend(self) -> bool:
        """Repair external changes. Return True if there were any."""
        drifted = self._ruleset.drifted()
        if drifted:
            self._ruleset.ensure([forwarding(*self._last, self._numbers)], anew=True)
        return drifted

    def uses(self, transits: Iterable[str]) -> bool:
        """Return True if connections here use one of these transit addresses."""
        return any(each in self._numbers for each in transits)

    def translations(self, transits: Collection[str], most: int) -> list[TranslatedConnection]:
        """Return live connections under these transit addresses."""
        return conntrack.translations(self._conntrack, transits, most)

    def remove(self) -> None:
        """Remove everything."""
        self._ruleset.remove([("inet", NAME)])
        ensure_rules(self._netlink, present_rules(self._netlink) - {_RULE})
        link = links.link(self._netlink, EGRESS)
        if link is not None:
            self._netlink.request([links.deletion(link.index)])

    def close(self) -> None:
        """Close sockets; the kernel state stays as it is."""
        self._netlink.close()
        self._conntrack.close()
        self._ruleset.close()

    def _number(self, transits: Iterable[str]) -> None:
        """Keep the numbers in use, and give new addresses the next ones: a number just released is reused last."""
        wanted, last = set(transits), max(self._numbers.values(), default=0)
        self._numbers = {each: number for each, number in self._numbers.items() if each in wanted}
        taken = set(self._numbers.values())
        free = (n for n in (1 + step % (INWARD - 1) for step in count(last)) if n not in taken)
        self._numbers |= {each: next(free) for each in sorted(wanted - self._numbers.keys())}
