"""A voter, which promises each address to one node at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tarmac.decide.egress.lease import LEASE, RENEW
from tarmac.decide.egress.lease.joint import digest_of
from tarmac.decide.egress.lease.messages import Ask, Grant, Refuse, Release, Renewal, Renewed, Send, Unlisted, Vacant


@dataclass(slots=True)
class _Group:
    """All promises to one node, renewable by one message."""

    members: dict[str, None] = field(default_factory=dict[str, None])
    digest: int = 0
    until: float = float("-inf")


@dataclass(slots=True)
class _Promise:
    """A promise. `holder` is the current or last holder; empty once released."""

    epoch: int = 0
    holder: str = ""
    own_until: float = float("-inf")
    told: float = float("-inf")  # when candidates were last notified that it is vacant
    group: _Group | None = None
    former: float = float("-inf")  # when it was last promised to the previous holder

    @property
    def until(self) -> float:
        """Expiry of the promise: the later of its own and its group's."""
        return self.own_until if self.group is None else max(self.own_until, self.group.until)


class Voter:
    """The voter of one node, for every address that it votes on."""

    def __init__(self, started: float, epochs: Mapping[str, int] | None = None) -> None:
        """`epochs` are those from before a restart of this node, so that no epoch decreases."""
        self._silent_until = started + LEASE  # promises made before a restart may last until then
        self._candidates: dict[str, tuple[str, ...]] = {}
        self._promises = {address: _Promise(epoch) for address, epoch in (epochs or {}).items()}
        self.changes = 0  # of epochs
        self._groups: dict[str, _Group] = {}  # by holder
        self._single: dict[str, None] = {}  # addresses to vote on that are in no group

    @property
    def epochs(self) -> dict[str, int]:
        """The highest epoch of each address. Persist it before sending a promise of a new epoch."""
        return {address: promise.epoch for address, promise in self._promises.items()}

    def serve(self, candidates: Mapping[str, Sequence[str]]) -> None:
        """Set the addresses to vote on and their candidates. Promises for other addresses stay until they expire."""
        self._candidates = {address: tuple(names) for address, names in candidates.items()}
        for address, promise in self._promises.items():
            self._leave(address, promise)
        self._single = dict.fromkeys(self._candidates)
        for address, promise in self._promises.items():
            self._join(address, promise)

    def asked(self, sender: str, ask: Ask, now: float) -> Send:
        """Answer a request. Grantable are the same epoch to the same holder, and a higher epoch to any candidate."""
        promise = self._promises.setdefault(ask.address, _Promise())
        free = now >= promise.until or promise.holder == sender
        newer = ask.epoch > promise.epoch or (ask.epoch == promise.epoch and promise.holder == sender)
        if now < self._silent_until or not (free and newer and sender in self._candidates.get(ask.address, ())):
            return Send(sender, Refuse(ask.address, promise.epoch, ask.nonce))
        if (promise.epoch, promise.holder) != (ask.epoch, sender):
            self._leave(ask.address, promise)
            if promise.holder != sender:
                promise.former = promise.own_until - LEASE
            self.changes += ask.epoch != promise.epoch
            promise.epoch, promise.holder = ask.epoch, sender
            self._join(ask.address, promise)
        promise.own_until = now + LEASE
        return Send(sender, Grant(ask.address, ask.epoch, ask.nonce))

    def released(self, sender: str, release: Release, now: float) -> list[Send]:
        """Drop a released promise and notify the candidates at once.

        The epoch is kept: a request of that epoch that arrives after its own release must not be granted.
        """
        promise = self._promises.setdefault(release.address, _Promise())
        given_back = promise.holder == sender and release.epoch >= promise.epoch
        if not given_back:
            return []
        self._leave(release.address, promise)
        self.changes += release.epoch > promise.epoch
        promise.epoch = max(promise.epoch, release.epoch)
        promise.holder, promise.own_until, promise.told = "", now, now
        return list(self._vacant(release.address, promise, but=sender))

    def renewed(self, sender: str, renewal: Renewal, now: float) -> Renewed | Unlisted:
        """Renew all promises to a node if its digest matches the voter's set."""
        group = self._groups.get(sender)
        if now < self._silent_until or group is None or not group.members or group.digest != renewal.digest:
            return Unlisted(renewal.digest, renewal.nonce)
        group.until = now + LEASE
        return Renewed(renewal.digest, renewal.nonce)

    def last_promised(self, address: str) -> float:
        """Return when an address was last promised to the previous holder; minus infinity if never."""
        known = self._promises.get(address)
        return known.former if known is not None else float("-inf")

    def tick(self, now: float) -> list[Send]:
        """Notify the candidates of each vacant address, repeatedly: messages may be lost."""
        if now < self._silent_until:
            return []
        sends: list[Send] = []
        lapsed = [each for group in self._groups.values() if now >= group.until for each in group.members]
        for address in (*self._single, *lapsed):
            promise = self._promises.setdefault(address, _Promise())
            if now >= promise.until and now - promise.told >= RENEW:
                promise.told = now
                sends += self._vacant(address, promise)
        return sends

    def _join(self, address: str, promise: _Promise) -> None:
        """Add a promise to its holder's group, only if a separate request for it would be granted."""
        if promise.holder and promise.holder in self._candidates.get(address, ()):
            group = promise.group = self._groups.setdefault(promise.holder, _Group())
            group.members[address] = None
            group.digest ^= digest_of(address, promise.epoch)
            self._single.pop(address, None)

    def _leave(self, address: str, promise: _Promise) -> None:
        """Remove a promise from its group; it keeps the group's expiry."""
        if promise.group is not None:
            promise.own_until = promise.until
            del promise.group.members[address]
            promise.group.digest ^= digest_of(address, promise.epoch)
            promise.group = None
            if address in self._candidates:
                self._single[address] = None

    def _vacant(self, address: str, promise: _Promise, but: str = "") -> Iterator[Send]:
        for name in self._candidates.get(address, ()):
            if name != but:
                yield Send(name, Vacant(address, promise.epoch))
