"""A holder: keeps the promises for one address, and knows how long they last."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.decide.egress.lease import DRIFT, LEASE, RENEW, majority
from tarmac.decide.egress.lease.messages import Ask, Grant, Send

_LASTS = LEASE * (1 - DRIFT)  # a voter's clock may be faster than the holder's


class Holder:
    """The promises of one epoch. A candidate begins one when it asks; with a majority it is the owner's."""

    def __init__(self, address: str, epoch: int, voters: Sequence[str]) -> None:
        self.address, self.epoch = address, epoch
        self._voters = tuple(voters)
        self._promised: dict[str, float] = {}  # voter -> when the newest request that it granted was sent
        self._sent: dict[int, float] = {}  # nonce -> when
        self._nonce = 0
        self._asked = float("-inf")

    def change_voters(self, voters: Sequence[str]) -> None:
        """Count the votes of these from now on."""
        self._voters = tuple(voters)

    @property
    def until(self) -> float:
        """When the majority of promises is no longer certain; in the past while there is none."""
        sent = sorted((self._promised.get(each, float("-inf")) for each in self._voters), reverse=True)
        needed = majority(len(sent))
        return sent[needed - 1] + _LASTS if needed <= len(sent) else float("-inf")

    def ask(self, now: float) -> list[Send]:
        """Ask every voter, at most once in a while. `now` is read before anything is sent."""
        if now - self._asked < RENEW:
            return []
        self._asked, self._nonce = now, self._nonce + 1
        self._sent = {nonce: sent for nonce, sent in self._sent.items() if now - sent < LEASE}
        self._sent[self._nonce] = now
        return [Send(each, Ask(self.address, self.epoch, self._nonce)) for each in self._voters]

    def granted(self, voter: str, grant: Grant) -> None:
        """Count a promise from when it was asked for; one of another epoch, or that nobody asked for, is none."""
        sent = self._sent.get(grant.nonce)
        if grant.epoch == self.epoch and sent is not None and voter in self._voters:
            self._promised[voter] = max(sent, self._promised.get(voter, sent))
