"""A voter: promises each address to one node at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tarmac.decide.egress.lease import LEASE, RENEW
from tarmac.decide.egress.lease.messages import Ask, Grant, Refuse, Release, Send, Vacant


@dataclass(slots=True)
class _Promise:
    """`holder` is who has or had it; empty once it was given back."""

    epoch: int = 0
    holder: str = ""
    until: float = float("-inf")
    told: float = float("-inf")  # when candidates last heard that it is vacant


class Voter:
    """The voter of one node, for every address that it votes on."""

    def __init__(self, started: float, epochs: Mapping[str, int] | None = None) -> None:
        """`epochs` are those of an earlier life of this node, so that none goes back."""
        self._silent_until = started + LEASE  # what an earlier life of this node promised may hold until then
        self._candidates: dict[str, tuple[str, ...]] = {}
        self._promises = {address: _Promise(epoch) for address, epoch in (epochs or {}).items()}

    @property
    def epochs(self) -> dict[str, int]:
        """The highest of each address, to be kept before a promise of a new one is sent."""
        return {address: promise.epoch for address, promise in self._promises.items()}

    def serve(self, candidates: Mapping[str, Sequence[str]]) -> None:
        """The addresses to vote on, and who may carry each. Promises for others stay until they lapse."""
        self._candidates = {address: tuple(names) for address, names in candidates.items()}

    def asked(self, sender: str, ask: Ask, now: float) -> Send:
        """Answer a request. Both an equal epoch of the same holder and a higher one of anybody may be promised."""
        promise = self._promises.setdefault(ask.address, _Promise())
        free = now >= promise.until or promise.holder == sender
        newer = ask.epoch > promise.epoch or (ask.epoch == promise.epoch and promise.holder == sender)
        if now < self._silent_until or not (free and newer and sender in self._candidates.get(ask.address, ())):
            return Send(sender, Refuse(ask.address, promise.epoch, ask.nonce))
        promise.epoch, promise.holder, promise.until = ask.epoch, sender, now + LEASE
        return Send(sender, Grant(ask.address, ask.epoch, ask.nonce))

    def released(self, sender: str, release: Release, now: float) -> list[Send]:
        """Forget a promise that was given back, and tell the candidates at once.

        The epoch is remembered: a request of that epoch that was overtaken by its own release must not be promised.
        """
        promise = self._promises.setdefault(release.address, _Promise())
        given_back = promise.holder == sender and release.epoch >= promise.epoch
        promise.epoch = max(promise.epoch, release.epoch) if given_back else promise.epoch
        if not given_back:
            return []
        promise.holder, promise.until, promise.told = "", now, now
        return list(self._vacant(release.address, promise, but=sender))

    def tick(self, now: float) -> list[Send]:
        """Tell the candidates of each vacant address, again and again: words may be lost."""
        if now < self._silent_until:
            return []
        sends: list[Send] = []
        for address in self._candidates:
            promise = self._promises.setdefault(address, _Promise())
            if now >= promise.until and now - promise.told >= RENEW:
                promise.told = now
                sends += self._vacant(address, promise)
        return sends

    def _vacant(self, address: str, promise: _Promise, but: str = "") -> Iterator[Send]:
        for name in self._candidates.get(address, ()):
            if name != but:
                yield Send(name, Vacant(address, promise.epoch))
