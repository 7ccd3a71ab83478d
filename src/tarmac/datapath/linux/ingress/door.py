"""One Network's part in public addresses: the link `ingress` of its router namespace, and the translation to pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tarmac.datapath.linux import conntrack, links, namespaces, routing
from tarmac.datapath.linux.conntrack import TrackedConnection
from tarmac.datapath.linux.naming import EGRESS_HOP, EGRESS_MAC, INGRESS, ingress_leg_name
from tarmac.datapath.linux.netlink import NETFILTER, Netlink
from tarmac.datapath.linux.policyrouting import RoutingRule, ensure_rules, present_rules
from tarmac.datapath.linux.routing import Route
from tarmac.datapath.linux.ruleset import Ruleset
from tarmac.datapath.linux.tables.receiving import ENTERED, NAME, ROUTED, Reception, receiving

_TABLE: Final = 117
_RULE: Final = RoutingRule(117, _TABLE, ROUTED, 0xFFFFFFFF)


class Door:
    """Public addresses in a router namespace. Used from the datapath's thread only."""

    def __init__(self, path: Path) -> None:
        self.name = ingress_leg_name(path.name)
        self._path = path
        self.identity = path.stat().st_ino  # differs for a recreated namespace
        with namespaces.inside(path):
            self._netlink, self._conntrack, self._ruleset = Netlink(), Netlink(NETFILTER), Ruleset()
        self._last: Sequence[Reception] = ()
        self._allowed: set[tuple[object, ...]] | None = None

    def lead(self, mtu: int) -> None:
        """Route the answers of marked connections into the link, whose other end exists by now."""
        link = links.link(self._netlink, INGRESS)
        if link is None:
            raise OSError(f"the link {INGRESS} of {self._path.name} has vanished")
        self._netlink.request(
            [
                links.setting(link.index, mtu=mtu),
                routing.neighbour(link.index, EGRESS_HOP, EGRESS_MAC),
                *(routing.route(Route(each, link.index, EGRESS_HOP, _TABLE)) for each in ("0.0.0.0/0", "::/0")),
            ]
        )
        # After the routes: with an empty table, marked packets would fall through to the main table.
        ensure_rules(self._netlink, present_rules(self._netlink) | {_RULE})
        links.settle(self._netlink, INGRESS)

    def receive(self, receptions: Sequence[Reception]) -> None:
        """Translate exactly these ports. Connections that exist stay, but for datagrams to pods that are gone."""
        self._ruleset.ensure([receiving(receptions)])
        self._last = receptions
        allowed: set[tuple[object, ...]] = {
            (each.address, each.protocol, each.port, *backend) for each in receptions for backend in each.backends
        }
        before, self._allowed = self._allowed, allowed
        # Only after a withdrawal: reading the table takes the kernel ten milliseconds and more.
        if before is None or before - allowed:
            conntrack.forget(self._conntrack, _ended(allowed))

    def mend(self) -> bool:
        """Repair external changes. Return True if there were any."""
        drifted = self._ruleset.drifted()
        if drifted:
            self._ruleset.ensure([receiving(self._last)], anew=True)
        return drifted

    def remove(self) -> None:
        """Remove everything, and end its connections."""
        self._ruleset.remove([("inet", NAME)])
        ensure_rules(self._netlink, present_rules(self._netlink) - {_RULE})
        link = links.link(self._netlink, INGRESS)
        if link is not None:
            self._netlink.request([links.deletion(link.index)])
        # After the link: a packet in between would create an entry again.
        conntrack.forget(self._conntrack, lambda found: bool(found.mark & ENTERED))

    def close(self) -> None:
        """Close sockets; the kernel state stays as it is."""
        self._netlink.close()
        self._conntrack.close()
        self._ruleset.close()


def _ended(allowed: set[tuple[object, ...]]) -> Callable[[TrackedConnection], bool]:
    """Return the predicate for datagrams to pods that serve no more: they have no end of a connection."""

    def ended(found: TrackedConnection) -> bool:
        own = found.meant, found.protocol, found.meant_port, found.answerer, found.port
        return bool(found.mark & ENTERED) and found.protocol == "UDP" and own not in allowed

    return ended
