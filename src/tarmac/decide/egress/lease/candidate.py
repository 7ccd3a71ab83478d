"""A candidate for one address: waits until it is vacant, requests promises in turn, owns it while a majority promises.

idle → waiting (its turn) → asking → probing (first ownership only) → owning → idle
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import ClassVar, Literal

from tarmac.decide.egress.lease import CONFLICT_REST, ELECTION_TIMEOUT, RENEW, STEP
from tarmac.decide.egress.lease.holder import LeaseHolder
from tarmac.decide.egress.lease.joint import Joints
from tarmac.decide.egress.lease.messages import (
    AddressProbe,
    Drop,
    Effect,
    Grant,
    Own,
    Refuse,
    Release,
    Renew,
    Send,
    Vacant,
)

State = Literal["idle", "waiting", "asking", "probing", "owning"]


class Candidate:
    """One node's candidacy for one address. `epoch` is the highest known, from disk, voters or announcements.

    The epoch of each request is known, and therefore persisted, before the request is sent.
    """

    RENEWAL: ClassVar = RENEW  # interval of an owner's requests, in seconds

    def __init__(
        self,
        node: str,
        address: str,
        candidates: Sequence[str],
        voters: Sequence[str],
        epoch: int = 0,
        joints: Joints | None = None,
    ) -> None:
        """`joints` are shared by all candidates of a node."""
        self._joints = joints
        self.node, self.address = node, address
        self.state: State = "idle"
        self.epoch = epoch
        self._eligible = True
        self._carried = epoch > 0
        self._candidates, self._voters = tuple(candidates), tuple(voters)
        self._holder: LeaseHolder | None = None
        self._due = float("-inf")  # waiting: when to ask; asking: until when
        self._rest_until = float("-inf")
        self._gave_up = ""

    def change(self, candidates: Sequence[str], voters: Sequence[str], now: float) -> list[Effect]:
        """Apply the Gateway's candidates and voters. A node that is no longer a candidate releases the address."""
        same = self._voters == tuple(voters)
        self._candidates, self._voters = tuple(candidates), tuple(voters)
        if self._holder is None:
            return self._move_up(now)
        self._holder.change_voters(voters)
        # An election started with a different set of voters may have a lower epoch than an owner elected since.
        if self.state == "asking" and not (same and self.epoch == self._holder.epoch):
            return self._end()
        if self.node not in self._candidates or (self.state != "asking" and self._holder.until <= now):
            return self._end()
        # Shorten the lease to the votes that still count before the change is acknowledged: the next change of voters
        # waits for that acknowledgement and may let a different majority form.
        return [Renew(self.address, self._holder.until)] if self.state == "owning" else []

    def allow(self, eligible: bool) -> None:
        """Allow or forbid a candidacy: forbidden while the node is cordoned, stopping, or without an external link."""
        self._eligible = eligible

    def announced(self, epoch: int) -> None:
        """Learn of an owner's epoch from its announcement or the Gateway; an address owned before needs no probe.

        All voters may have been replaced since, so the Gateway's epoch is needed to keep epochs from decreasing.
        """
        self._carried |= epoch > 0
        self._learn(epoch)

    def given_up(self, node: str, now: float) -> list[Effect]:
        """Skip a node in line that has released its promises. This affects only the order of requests.

        A voter's Vacant message may have arrived before, so the delay is recomputed.
        """
        self._gave_up = node if node != self.node else ""
        return self._move_up(now)

    def _learn(self, epoch: int) -> None:
        self.epoch = max(self.epoch, epoch)

    def vacant(self, voter: str, message: Vacant, now: float) -> list[Effect]:
        """Handle a voter's free promise: wait for this node's turn, or, as the owner, request it."""
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
        """Count a promise; own or probe the address once a majority has promised."""
        if self._holder is None:
            return []
        self._holder.granted(voter, grant)
        if self.state == "asking" and self._holder.until > now:
            return self._elected(now)
        return [Renew(self.address, self._holder.until)] if self.state == "owning" else []

    def refused(self, voter: str, refuse: Refuse, now: float) -> list[Effect]:
        """Handle a rejection: the next request uses a higher number than the voter knows."""
        self._learn(refuse.epoch)
        # Only once elected: an epoch that no full majority has granted may be lower than an earlier owner's.
        if self._holder is None or self.state not in ("probing", "owning"):
            return []
        self._holder.refused(voter, refuse)
        self._learn(self._holder.ballot)
        return self._end() if self._holder.until <= now else []

    def probed(self, conflict: bool, now: float) -> list[Effect]:
        """Handle the probe's result. On a conflict, release the address and retry after `CONFLICT_REST`."""
        if self.state != "probing" or self._holder is None:
            return []
        if conflict:
            self._rest_until = now + CONFLICT_REST
        if conflict or self._holder.until <= now:
            return self._end()
        return self._owning(self._holder)

    def give_up(self) -> list[Effect]:
        """Hand over: drop the address first, then release the promises, so the next candidate takes over at once."""
        return self._end()

    @property
    def voters(self) -> tuple[str, ...]:
        """The voters of the address."""
        return self._voters

    @property
    def steady(self) -> bool:
        """True for an owner with joint renewal of all promises."""
        return self.state == "owning" and self._holder is not None and self._holder.joined

    def renewed(self) -> list[Effect]:
        """Handle a voter's joint renewal."""
        return [Renew(self.address, self._holder.until)] if self._holder is not None and self.state == "owning" else []

    def unlisted(self, voter: str, now: float) -> list[Effect]:
        """Request the promise separately from a voter that rejected the joint renewal."""
        return list(self._holder.ask_alone(voter, now)) if self._holder is not None else []

    def tick(self, now: float, *, renew: bool = True, together: Container[str] = ()) -> list[Effect]:
        """Handle expired timers. `renew=False` postpones an owner's renewal to the node's next round.

        The voters of `together` get a joint renewal instead.
        """
        if self.state == "waiting" and now >= self._due:
            return self._begin(now) if self._may_ask(now) else self._end()
        if self._holder is None:
            return []
        if self.state == "asking" and now >= self._due:
            return self._end()
        if self.state in ("probing", "owning") and now >= self._holder.until:
            return self._end()
        return list(self._holder.ask(now, together)) if renew or self.state == "asking" else []

    def _turn(self, now: float) -> float:
        """Return the time of this node's turn if it joins the line now."""
        line = [each for each in self._candidates if each != self._gave_up]
        return now + STEP * line.index(self.node)

    def _move_up(self, now: float) -> list[Effect]:
        """Shorten the delay when nodes ahead have left the line."""
        if self.state != "waiting" or self.node not in self._candidates:
            return []
        self._due = min(self._due, self._turn(now))
        return self.tick(now)

    def _may_ask(self, now: float) -> bool:
        return self._eligible and now >= self._rest_until and self.node in self._candidates

    def _begin(self, now: float) -> list[Effect]:
        self.epoch += 1
        self.state, self._due = "asking", now + ELECTION_TIMEOUT
        self._holder = LeaseHolder(self.address, self.epoch, self._voters, self._joints)
        return list(self._holder.ask(now))

    def _elected(self, now: float) -> list[Effect]:
        assert self._holder is not None, "it has asked"
        assert self._holder.until > now, "a majority has promised"
        if not self._carried:
            self.state = "probing"
            return [AddressProbe(self.address)]
        return self._owning(self._holder)

    def _owning(self, holder: LeaseHolder) -> list[Effect]:
        self.state, self._carried = "owning", True
        return [Own(self.address, holder.epoch, holder.until)]

    def _end(self) -> list[Effect]:
        """Return to idle and release all promises. They are never requested again under the same epoch.

        The address is dropped before, even if this node only requested it: after a restart of the agent the kernel may
        still carry the address under earlier promises, which this release gives up too.
        """
        holder, self.state, self._holder = self._holder, "idle", None
        if holder is None:
            return []
        holder.end()
        return [Drop(self.address), *(Send(each, Release(self.address, holder.ballot)) for each in self._voters)]
