"""A candidate for one address: waits until it is vacant, asks in its turn, and carries it while a majority promises.

idle → waiting (its turn) → asking → probing (first ownership only) → owning → idle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from tarmac.decide.egress.lease import CONFLICT_REST, PATIENCE, RENEW, STEP
from tarmac.decide.egress.lease.holder import Holder
from tarmac.decide.egress.lease.messages import Drop, Effect, Grant, Own, Probe, Refuse, Release, Renew, Send, Vacant

State = Literal["idle", "waiting", "asking", "probing", "owning"]


class Candidate:
    """One node's part for one address. `epoch` is the highest that it knows of, from disk, voters or announcements.

    Each request is of an epoch that the node has known, and so has on its disk, before it is sent.
    """

    RENEWAL: ClassVar = RENEW  # seconds between two requests of an owner

    def __init__(
        self, node: str, address: str, candidates: Sequence[str], voters: Sequence[str], epoch: int = 0
    ) -> None:
        self.node, self.address = node, address
        self.state: State = "idle"
        self.epoch = epoch
        self._eligible = True
        self._carried = epoch > 0
        self._candidates, self._voters = tuple(candidates), tuple(voters)
        self._holder: Holder | None = None
        self._due = float("-inf")  # waiting: when to ask; asking: until when
        self._rest_until = float("-inf")
        self._gave_up = ""

    def change(self, candidates: Sequence[str], voters: Sequence[str], now: float) -> list[Effect]:
        """Follow the Gateway: who is in line, and who votes. One that is no candidate any more gives up."""
        same = self._voters == tuple(voters)
        self._candidates, self._voters = tuple(candidates), tuple(voters)
        if self._holder is None:
            return self._move_up(now)
        self._holder.change_voters(voters)
        # A request that was begun among other voters may be of a lower epoch than an owner they have elected since.
        if self.state == "asking" and not (same and self.epoch == self._holder.epoch):
            return self._end()
        if self.node not in self._candidates or (self.state != "asking" and self._holder.until <= now):
            return self._end()
        # What rests on votes that no longer count is cut short before the change is acknowledged: the next change of
        # voters, which waits for that, may let another majority form.
        return [Renew(self.address, self._holder.until)] if self.state == "owning" else []

    def allow(self, eligible: bool) -> None:
        """Whether the node may take the address: not while it is cordoned, stopping, or has no link outside."""
        self._eligible = eligible

    def announced(self, epoch: int) -> None:
        """Somebody carries the address, or did, by his own word or the Gateway's: no stranger is looked for any more.

        Voters may all have been replaced since, so what the Gateway says is needed for epochs not to go back.
        """
        self._carried |= epoch > 0
        self._learn(epoch)

    def given_up(self, node: str, now: float) -> list[Effect]:
        """Another has given its promises back, so nobody waits for it to ask first. Only the order hangs on it.

        A voter's word that the address is vacant may have come before this one, and so may the place in line.
        """
        self._gave_up = node if node != self.node else ""
        return self._move_up(now)

    def _learn(self, epoch: int) -> None:
        self.epoch = max(self.epoch, epoch)

    def vacant(self, voter: str, message: Vacant, now: float) -> list[Effect]:
        """A voter's promise is free: get in line, or, as the owner, ask for it."""
        self._learn(message.epoch)
        if self._holder is not None and self.state in ("probing", "owning"):
            sends = self._holder.ask_again(voter, message.epoch, now)
            self._learn(self._holder.ballot)
            return list(sends)
        if self.state != "idle" or not self._may_ask(now):
            return []
        self.state, self._due = "waiting", self._turn(now)
        return self.tick(now)

    def granted(self, voter: str, grant: Grant, now: float) -> list[Effect]:
        """A promise."""
        if self._holder is None:
            return []
        self._holder.granted(voter, grant)
        if self.state == "asking" and self._holder.until > now:
            return self._elected(now)
        return [Renew(self.address, self._holder.until)] if self.state == "owning" else []

    def refused(self, voter: str, refuse: Refuse, now: float) -> list[Effect]:
        """No promise; the next request is of a higher number than the voter knows."""
        self._learn(refuse.epoch)
        # Only once elected: an epoch that a majority has not granted whole may be lower than an earlier owner's.
        if self._holder is None or self.state not in ("probing", "owning"):
            return []
        self._holder.refused(voter, refuse)
        self._learn(self._holder.ballot)
        return self._end() if self._holder.until <= now else []

    def probed(self, conflict: bool, now: float) -> list[Effect]:
        """What the probe found. A stranger on the wire: nothing is carried, and it is tried again after a while."""
        if self.state != "probing" or self._holder is None:
            return []
        if conflict:
            self._rest_until = now + CONFLICT_REST
        if conflict or self._holder.until <= now:
            return self._end()
        return self._owning(self._holder)

    def give_up(self) -> list[Effect]:
        """Hand over: drop the address first, then give the promises back, so that the next takes over at once."""
        return self._end()

    def tick(self, now: float, *, renew: bool = True) -> list[Effect]:
        """Handle expired timers. `renew=False` postpones an owner's renewal to the node's next round."""
        if self.state == "waiting" and now >= self._due:
            return self._begin(now) if self._may_ask(now) else self._end()
        if self._holder is None:
            return []
        if self.state == "asking" and now >= self._due:
            return self._end()
        if self.state in ("probing", "owning") and now >= self._holder.until:
            return self._end()
        return list(self._holder.ask(now)) if renew or self.state == "asking" else []

    def _turn(self, now: float) -> float:
        """When it is this node's turn, who is in line from now on."""
        line = [each for each in self._candidates if each != self._gave_up]
        return now + STEP * line.index(self.node)

    def _move_up(self, now: float) -> list[Effect]:
        """Wait no longer for those who are no longer in line."""
        if self.state != "waiting" or self.node not in self._candidates:
            return []
        self._due = min(self._due, self._turn(now))
        return self.tick(now)

    def _may_ask(self, now: float) -> bool:
        return self._eligible and now >= self._rest_until and self.node in self._candidates

    def _begin(self, now: float) -> list[Effect]:
        self.epoch += 1
        self.state, self._due = "asking", now + PATIENCE
        self._holder = Holder(self.address, self.epoch, self._voters)
        return list(self._holder.ask(now))

    def _elected(self, now: float) -> list[Effect]:
        assert self._holder is not None, "it has asked"
        assert self._holder.until > now, "a majority has promised"
        if not self._carried:
            self.state = "probing"
            return [Probe(self.address)]
        return self._owning(self._holder)

    def _owning(self, holder: Holder) -> list[Effect]:
        self.state, self._carried = "owning", True
        return [Own(self.address, holder.epoch, holder.until)]

    def _end(self) -> list[Effect]:
        """Back to idle, and what was promised is given back. It is never asked for again under its epoch.

        The address is dropped before, also by one that merely asked: an agent that has started anew may find its kernel
        still live by promises to its earlier life, which are given back with its own.
        """
        holder, self.state, self._holder = self._holder, "idle", None
        if holder is None:
            return []
        return [Drop(self.address), *(Send(each, Release(self.address, holder.ballot)) for each in self._voters)]
