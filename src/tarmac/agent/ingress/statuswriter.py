"""Writes this node's entry of PublicAddresses: that its rules are in force, and whether it announces the address.

Each node writes its own entry with its own field manager, so nodes do not overwrite each other. An unchanged entry is
not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tarmac.agent.egress.leases.ownership import Ownership
from tarmac.agent.ingress.announcer import RouteAnnouncer
from tarmac.api.networking.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.base.clock import rfc3339
from tarmac.client.client import Client
from tarmac.client.controller import Controller
from tarmac.client.targets.typed import PUBLIC_ADDRESSES
from tarmac.decide import reasons

_WORKERS = 4
_MAX_VIA = 1024


@dataclass(frozen=True, slots=True)
class AppliedAddress:
    """An address whose rules are in force here: its link outside, if it may be owned, and why it must not, if so.

    `generation` is that of its candidates and voters in use here; 0 if this node is and was no candidate. `routed`:
    this node may announce it by BGP.
    """

    name: str  # of the PublicAddress
    location: str = ""
    via: str = ""
    reason: str = ""
    generation: int = 0
    routed: bool = False
    doubtful: bool = False  # this node's own connections to it fail


class IngressStatusWriter:
    """Status writer of one node.

    `owned` and `foreign_hosts` return the state of the lease thread by address, `announcer` that of BGP.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        owned: Callable[[], Mapping[str, Ownership]],
        foreign_hosts: Callable[[], Mapping[str, str]],
        announcer: Callable[[], RouteAnnouncer],
    ) -> None:
        self._node, self._owned, self._foreign_hosts, self._announcer = node, owned, foreign_hosts, announcer
        self._addresses, self._clock = client.resource(PUBLIC_ADDRESSES.unread), client.clock
        self._wanted: dict[str, AppliedAddress] = {}  # by address
        self._names: dict[str, str] = {}  # of PublicAddresses that have an entry of this node, by address
        self._written: dict[str, JsonObject] = {}
        self._controller = Controller(
            "ingress-status", self._write, clock=client.clock, randomness=client.randomness, workers=_WORKERS
        )

    async def run(self) -> None:
        """Write entries, with retries, until cancelled."""
        await self._controller.run()

    def report(self, applied: Mapping[str, AppliedAddress]) -> None:
        """Report the addresses whose rules are in force, and withdraw the entries of all others."""
        changed = self._wanted.keys() | applied.keys()
        self._wanted = dict(applied)
        self._names |= {address: each.name for address, each in applied.items()}
        for address in changed:
            self._controller.queue.add(address)

    def moved(self, address: str) -> None:
        """Update the entry of an address that this node has acquired or lost."""
        if address in self._wanted:
            self._controller.queue.add(address)

    async def _write(self, address: str) -> None:
        name, applied = self._names.get(address, ""), self._wanted.get(address)
        if not name:
            return
        entry = self._entry(address, applied) if applied is not None else {}
        before = self._written.get(address, {})
        if _stable(entry) == _stable(before):
            return
        with suppress(NotFound):  # just deleted; its rules go next
            body: JsonObject = {
                "apiVersion": API_VERSION,
                "kind": "PublicAddress",
                "metadata": {"name": name},
                "status": {"nodes": [entry] if entry else []},
            }
            await self._addresses.apply(body, manager=f"node-{self._node}", subresource="status")
        # Only after success: the controller repeats a failed write, which must not be taken for a written one.
        if entry:
            self._written[address] = entry
        else:
            self._written.pop(address, None)
            if address not in self._wanted:  # reported again meanwhile
                self._names.pop(address, None)

    def _entry(self, address: str, applied: AppliedAddress) -> JsonObject:
        since, via = self._announcement(address, applied)
        entry: JsonObject = {
            "name": self._node,
            "location": applied.location,
            "announcing": since is not None,
            "since": rfc3339(self._clock.now() if since is None else since),
        } | ({"appliedGeneration": applied.generation} if applied.generation else {})
        if since is not None:
            doubt = {"reason": reasons.SELF_TEST_FAILED} if applied.doubtful else {}
            return entry | ({"via": via} if via else {}) | doubt
        reason = reasons.ADDRESS_CONFLICT if address in self._foreign_hosts() else applied.reason
        if applied.routed and not reason:
            reason = self._announcer().reason(address)
        return entry | ({"reason": reason} if reason else {})

    def _announcement(self, address: str, applied: AppliedAddress) -> tuple[float | None, str]:
        """Return since when this node announces an address, None if it does not, and by which interface or peers."""
        if (owned := self._owned().get(address)) is not None:
            return owned.since, applied.via
        routed = self._announcer().announced.get(address) if applied.routed else None
        return (None, "") if routed is None else (routed.since, ",".join(routed.peers)[:_MAX_VIA])


def _stable(entry: JsonObject) -> JsonObject:
    """Return an entry without its time, which alone is no reason to write."""
    return {key: value for key, value in entry.items() if key != "since"}
