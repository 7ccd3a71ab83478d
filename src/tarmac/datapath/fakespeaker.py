"""A BGP speaker without packets: every session is established at once, unless a test reports something else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from ipaddress import ip_address, ip_network

from tarmac.datapath.speaker import ESTABLISHED, BgpSession, SessionReport, SpeakerState


class FakeSpeaker:
    """Speaker of one node. `overrides` replaces the reports of sessions, by name."""

    def __init__(self) -> None:
        self.available = True
        self.state = SpeakerState()
        self.announced = frozenset[str]()
        self.overrides: dict[str, SessionReport] = {}

    async def ensure(self, state: SpeakerState) -> None:
        """Store the sessions."""
        self.state = state if self.available else SpeakerState()
        if not self.state.sessions:
            self.announced = frozenset()

    async def keep_only(self, addresses: Collection[str]) -> None:
        """Withdraw all other addresses."""
        self.announced &= frozenset(addresses)

    async def announce(self, addresses: Collection[str]) -> None:
        """Announce exactly these addresses, if there is a session."""
        self.announced = frozenset(addresses) if self.state.sessions else frozenset()

    async def check(self) -> None:
        """Never needs a repair."""

    async def reports(self) -> Mapping[str, SessionReport]:
        """Return the sessions by name."""
        return {
            each.name: self.overrides.get(each.name) or SessionReport(ESTABLISHED, announced=len(self.routes(each)))
            for each in self.state.sessions
        }

    def routes(self, session: BgpSession) -> list[str]:
        """Return the addresses announced over a session."""
        ranges = [ip_network(each) for pool in session.pools for each in pool.ranges]
        return sorted(each for each in self.announced if any(ip_address(each) in one for one in ranges))
