"""A holder: keeps the promises for one address, and knows how long they last."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.decide.egress.lease import DRIFT, FURTHEST, LEASE, RENEW, majority
from tarmac.decide.egress.lease.messages import Ask, Grant, Refuse, Send

_MOST_SENT = 64  # requests without an answer; a hostile voter could claim to be free in a loop
_LASTS = LEASE * (1 - DRIFT)  # a voter's clock may be faster than the holder's


class Holder:
    """The promises to one holder. A candidate begins one when it asks; with a majority it is the owner's.

    `epoch` is the one under which it was elected. `ballot` is the number it asks with: `epoch` at first, and higher
    once a voter has promised a higher one to a candidate that lost. Without that, the voter would refuse the owner for
    as long as it lives, and each such voter brings the owner closer to losing its majority.
    """

    def __init__(self, address: str, epoch: int, voters: Sequence[str]) -> None:
        self.address, self.epoch, self.ballot = address, epoch, epoch
        self._voters = tuple(voters)
        self._promised: dict[str, float] = {}  # voter -> when the newest request that it granted was sent
        self._sent: dict[int, tuple[int, float]] = {}  # nonce -> ballot, when
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
        self._asked = now
        self._sent = {nonce: sent for nonce, sent in self._sent.items() if now - sent[1] < LEASE}
        return [self._ask(each, nonce) for nonce in (self._next(now),) for each in self._voters]

    def ask_again(self, voter: str, epoch: int, now: float) -> list[Send]:
        """Ask a voter whose promise is free, with a ballot above `epoch`, its highest so far."""
        if voter not in self._voters or epoch > self.ballot + FURTHEST or len(self._sent) >= _MOST_SENT:
            return []
        self.ballot = max(self.ballot, epoch + 1)
        return [self._ask(voter, self._next(now))]

    def granted(self, voter: str, grant: Grant) -> None:
        """Count a promise from when its request was sent; ignore grants of other ballots and unknown nonces."""
        ballot, sent = self._sent.get(grant.nonce, (-1, 0.0))
        if grant.epoch == ballot and voter in self._voters:
            self._promised[voter] = max(sent, self._promised.get(voter, sent))

    def refused(self, voter: str, refuse: Refuse) -> None:
        """Raise the ballot above the voter's, which another node holds.

        A voter refuses its own holder only after the promise has lapsed. In that case the clock of this node stood
        still (a paused virtual machine), and the holder stops counting the promise.
        """
        ballot, sent = self._sent.get(refuse.nonce, (-1, 0.0))
        if not 0 <= ballot <= refuse.epoch <= ballot + FURTHEST:
            return
        if ballot < refuse.epoch and sent > self._promised.get(voter, float("inf")):
            del self._promised[voter]
        if ballot == self.ballot:  # an answer to an earlier one may be about this holder's own later ballot
            self.ballot = refuse.epoch + 1

    def _next(self, now: float) -> int:
        self._nonce += 1
        self._sent[self._nonce] = self.ballot, now
        return self._nonce

    def _ask(self, voter: str, nonce: int) -> Send:
        return Send(voter, Ask(self.address, self.ballot, nonce))
