"""A holder, which counts the promises for one address and computes when they expire."""

from __future__ import annotations

from collections.abc import Container, Sequence

from tarmac.decide.egress.lease import FURTHEST, LASTS, LEASE, RENEW, majority
from tarmac.decide.egress.lease.joint import Joints
from tarmac.decide.egress.lease.messages import Ask, Grant, Refuse, Send

_MAX_SENT = 64  # limit of unanswered requests; a hostile voter could claim to be free in a loop


class LeaseHolder:
    """The promises to one node for one address, from its first request. With a majority the node is the owner.

    `epoch` is the epoch of its election. `ballot` is the number in its requests: `epoch` at first, and higher once a
    voter has promised a higher one to a candidate that lost. Otherwise that voter would reject the owner for ever, and
    each such voter brings the owner closer to losing its majority.
    """

    def __init__(self, address: str, epoch: int, voters: Sequence[str], joints: Joints | None = None) -> None:
        """`joints` are shared by all holders of a node, for joint renewal."""
        self.address, self.epoch, self.ballot = address, epoch, epoch
        self._voters = tuple(voters)
        self._promised: dict[str, float] = {}  # voter -> when the newest request that it granted was sent
        self._sent: dict[int, tuple[int, float]] = {}  # nonce -> ballot, when
        self._nonce = 0
        self._asked = float("-inf")
        self._joints = joints or Joints()

    def change_voters(self, voters: Sequence[str]) -> None:
        """Count only the votes of these voters from now on."""
        for each in self._voters:
            if each not in voters:
                self._leave(each)
        self._voters = tuple(voters)

    @property
    def until(self) -> float:
        """Expiry of the majority of promises; in the past while there is none."""
        sent = sorted([self._counted(each) for each in self._voters], reverse=True)
        needed = majority(len(sent))
        return sent[needed - 1] + LASTS if needed <= len(sent) else float("-inf")

    @property
    def joined(self) -> bool:
        """True if every voter has renewed its promise jointly."""
        return all(self._joints.of(each).sent(self.address) > float("-inf") for each in self._voters)

    def end(self) -> None:
        """Stop all renewals."""
        for each in self._voters:
            self._joints.of(each).leave(self.address)

    def _counted(self, voter: str) -> float:
        """Return the send time of the newest request that a voter granted, separately or jointly."""
        return max(self._promised.get(voter, float("-inf")), self._joints.of(voter).sent(self.address))

    def _leave(self, voter: str) -> None:
        """End joint renewal with a voter; the promise keeps its expiry."""
        if (counted := self._counted(voter)) > float("-inf"):
            self._promised[voter] = counted
        self._joints.of(voter).leave(self.address)

    def _raise(self, ballot: int) -> None:
        self.ballot = ballot
        for each in self._voters:
            self._leave(each)

    def ask(self, now: float, together: Container[str] = ()) -> list[Send]:
        """Request a promise from every voter, at most every `RENEW` seconds. Read `now` before sending.

        Skip the voters of `together` that renew this address jointly.
        """
        if now - self._asked < RENEW:
            return []
        self._asked = now
        self._sent = {nonce: sent for nonce, sent in self._sent.items() if now - sent[1] < LEASE}
        asked = [each for each in self._voters
                 if each not in together or self.address not in self._joints.of(each).members]  # fmt: skip
        return [self._ask(each, nonce) for nonce in (self._next(now),) for each in asked] if asked else []

    def ask_alone(self, voter: str, now: float) -> list[Send]:
        """Request the promise from a voter that rejected the joint renewal."""
        return [self._ask(voter, self._next(now))] if voter in self._voters and len(self._sent) < _MAX_SENT else []

    def ask_again(self, voter: str, epoch: int, now: float) -> list[Send]:
        """Request a voter's free promise with a ballot above `epoch`, the voter's highest so far."""
        if voter not in self._voters or epoch > self.ballot + FURTHEST or len(self._sent) >= _MAX_SENT:
            return []
        # Not for a voter that promised under this ballot: it would grant the ballot again, and its message may be from
        # before a pause of this node. A higher ballot would hide from `refused` that another node has the promise now.
        renewable = epoch == self.ballot and self._counted(voter) > float("-inf")
        if epoch >= self.ballot and not renewable:
            self._raise(epoch + 1)
        return [self._ask(voter, self._next(now))]

    def granted(self, voter: str, grant: Grant) -> None:
        """Count a promise from the send time of its request; ignore grants of other ballots and unknown nonces."""
        ballot, sent = self._sent.get(grant.nonce, (-1, 0.0))
        if grant.epoch == ballot and voter in self._voters:
            self._promised[voter] = max(sent, self._promised.get(voter, sent))
            if ballot == self.ballot:
                self._joints.of(voter).join(self.address, ballot)

    def refused(self, voter: str, refuse: Refuse) -> None:
        """Raise the ballot above the voter's, which it has promised to another node.

        A voter rejects its own holder only after the promise has expired. In that case this node's clock stood still (a
        paused virtual machine), and the holder stops counting the promise.
        """
        ballot, sent = self._sent.get(refuse.nonce, (-1, 0.0))
        if not 0 <= ballot <= refuse.epoch <= ballot + FURTHEST:
            return
        if ballot < refuse.epoch and sent > self._counted(voter) > float("-inf"):
            self._joints.of(voter).leave(self.address)
            self._promised.pop(voter, None)
        if ballot == self.ballot:  # a late response to an earlier ballot may report this holder's own later one
            self._raise(refuse.epoch + 1)

    def _next(self, now: float) -> int:
        self._nonce += 1
        self._sent[self._nonce] = self.ballot, now
        return self._nonce

    def _ask(self, voter: str, nonce: int) -> Send:
        return Send(voter, Ask(self.address, self.ballot, nonce))
