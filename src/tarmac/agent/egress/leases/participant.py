"""One node's part in all leases: its vote, its candidacies, the owners that it routes to and the followers it informs.

Driven by messages of other nodes, by time, and by Gateways; it drives the kernel, and puts outgoing messages into
`outbox`. Everything runs in one thread. Effects are executed in order: an address is dropped from the kernel before the
promises that it rested on are released. If the kernel fails to drop it, nothing is released, so the lease expires
everywhere before another node gets it.

All leases of a node are renewed together: one message per voter for any number of addresses, and one kernel transaction
for the answers. An unchanged address costs nothing by itself: it is `steady`, and checked only as part of the group
with the same voters.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tarmac.agent.egress.leases.addressconfig import Identity, Terms
from tarmac.agent.egress.leases.checkpoint import Known, Owner
from tarmac.agent.egress.leases.votes import Votes
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.decide.egress.lease.candidate import Candidate
from tarmac.decide.egress.lease.epochs import highest_epoch
from tarmac.decide.egress.lease.following import FOLLOW, Follower, Herald
from tarmac.decide.egress.lease.joint import Joint, Joints, SteadyGroup
from tarmac.decide.egress.lease.messages import (
    Announced,
    Ask,
    Drop,
    Effect,
    Follow,
    Grant,
    Message,
    Own,
    Probe,
    Refuse,
    Release,
    Renew,
    Renewal,
    Renewed,
    Send,
    Together,
    Unlisted,
    Vacant,
    Word,
)
from tarmac.decide.egress.lease.voter import Voter

TICK: Final = 0.1
_WORTH: Final = 0.1  # minimum growth of a lease for a kernel update
_AHEAD: Final = 0.6
"""Seconds before expiry in the kernel at which jointly renewed promises are written to it.

That happens in every second round. The kernel update is the main cost of a renewal, and all promises received until
then still arrive there in time.
"""
_LATELY: Final = 2.0
_REST: Final = 10.0  # pause after a failed kernel call
_GRATUITOUS: Final = (0.0, 0.1, 0.6, 1.6, *(float(10 * n) for n in range(1, 7)))

_log = log("external")


class Kernel(Protocol):
    """Datapath calls used by leases."""

    def follow(self, owners: Mapping[str, str]) -> None: ...
    def carry(self, seconds: Mapping[str, float]) -> None: ...
    def drop(self, addresses: Sequence[str]) -> None: ...
    def announce(self, addresses: Sequence[str]) -> None: ...


Cause = Literal["First", "HandedOver", "Silent", "Regained"]
"""Reason for owning an address: no owner before, released by its owner, owner silent, or owned by this node before."""


@dataclass(frozen=True, slots=True)
class Carrying:
    """Ownership of an address by this node: the epoch it won, and for operators the start time and the former owner.

    `gap` is the time since the last sign of the former owner, its renewal or its release; None if there was none.
    """

    epoch: int
    since: float
    former: str = ""
    cause: Cause = "First"
    gap: float | None = None


@dataclass(frozen=True, slots=True)
class _Sign:
    """The last message of an owner about an address: a renewal, or its release."""

    owner: str
    epoch: int
    at: float
    farewell: bool


class Faults(Exception):
    """A kernel call failed."""


class LeaseNode:
    """State of all leases.

    `probe` starts a search for a foreign host, its result goes to `probed`; `moved` gets changes.
    """

    def __init__(
        self,
        node: str,
        kernel: Kernel,
        clock: Clock,
        known: Known,
        probe: Callable[[str], None],
        moved: Callable[[str], None],
    ) -> None:
        self.outbox: list[tuple[Identity, Word | Together]] = []
        self.carrying: dict[str, Carrying] = {}
        self.strangers: dict[str, str] = {}
        self.taken: Counter[Cause] = Counter()  # takeovers by this node, for metrics
        self.votes = Votes()
        self.gaps: list[float] = [0.0, 0]  # seconds in total, and number of measurements
        self.terms: dict[str, Terms] = {}
        self._node, self._kernel, self._clock = node, kernel, clock
        self._probe, self._moved = probe, moved
        self._known = known.plausible(highest_epoch(clock.now()))
        self._voter = Voter(clock.monotonic(), self._known.epochs)
        self._candidates: dict[str, Candidate] = {}
        self._joints = Joints()
        self._lively: dict[str, Candidate] = {}  # checked in every tick
        self._steady: dict[tuple[str, ...], SteadyGroup] = {}  # all remaining candidates, by voters
        self._peers: dict[str, Identity] = {}  # nodes with the same identity in all terms
        self._peer_names: dict[Identity, str] = {}
        self._followers: dict[str, Follower] = {}
        self._heralds: dict[str, Herald[Identity]] = {}
        self._heard: dict[str, float] = {}  # node -> when
        self._signs: dict[str, _Sign] = {}  # by address
        self.told_kernel: dict[str, float] = {}  # address -> time until which the kernel serves it
        self._renewals: dict[str, float] = {}
        self._gratuitous: list[tuple[float, str]] = []
        self._said_follow = float("-inf")
        self._renewed = float("-inf")  # start of the last round of renewals
        self._untold: set[str] = set()  # owned addresses that some follower may not know of
        self._names: dict[str, dict[Identity, str]] = {}  # candidates and voters of each address
        self._leaving = False
        self._rests: dict[str, float] = {}  # address -> time until which this node is no candidate for it
        self._carried: dict[str, int] = {}  # address -> the highest epoch that is known to have had an owner
        self._own: deque[tuple[str, Message]] = deque()  # between this node's candidates and its voter
        self._owners_changed = 0

    @property
    def changes(self) -> tuple[int, int]:
        """A value that changes whenever `known` may differ in more than the epochs of this node's own requests."""
        return self._voter.changes, self._owners_changed

    @property
    def known(self) -> Known:
        """The state for the next agent process. It must be on disk before any message that depends on it is sent."""
        found = self._voter.epochs
        for address, candidate in self._candidates.items():
            found[address] = max(found.get(address, 0), candidate.epoch)
        owners = {
            address: Owner(known.epoch, known.owner, terms.candidates[known.owner].address)
            for address, known in self._followers.items()
            if known.owner in (terms := self.terms[address]).candidates
        }
        return Known({address: epoch for address, epoch in found.items() if epoch}, owners)

    def serve(self, terms: Mapping[str, Terms]) -> None:
        """Replace the configuration with that of the Gateways."""
        gone = self._candidates.keys() - terms.keys()
        for address in sorted(gone):
            self._wake(address)
            self._act(address, self._candidates.pop(address).give_up())
            self._lively.pop(address, None)
        self.terms = dict(terms)
        shared: dict[tuple[tuple[Identity, str], ...], dict[Identity, str]] = {}
        names = ((each.address, each.names()) for each in terms.values())
        self._names = {address: shared.setdefault(tuple(own.items()), own) for address, own in names}
        self._owners_changed += 1
        self._meet(terms.values())
        for address, each in terms.items():
            self._wake(address)
            self._stand(address, each)
            self._follow(address, each)
        self._followers = {each: known for each, known in self._followers.items() if each in terms}
        self._carried = {each: epoch for each, epoch in self._carried.items() if each in terms}
        self._heralds = {each: self._heralds.get(each) or Herald() for each in terms}
        voted = {each.address: list(each.candidates) for each in terms.values() if self._node in each.voters}
        self._voter.serve(voted)
        self.settle()

    def _meet(self, terms: Iterable[Terms]) -> None:
        """Index the nodes that all addresses know by the same name and identity.

        Only these can use messages about many addresses at once.
        """
        identities: dict[str, set[Identity]] = {}
        names: dict[Identity, set[str]] = {}
        for each in terms:
            for name, identity in (*each.candidates.items(), *each.voters.items()):
                identities.setdefault(name, set()).add(identity)
                names.setdefault(identity, set()).add(name)
        alone = ((name, next(iter(own))) for name, own in identities.items() if len(own) == 1)
        self._peers = {name: own for name, own in alone if own.key and len(names[own]) == 1}
        self._peer_names = {identity: name for name, identity in self._peers.items()}

    def heard(self, sender: Identity, words: Iterable[Word | Together], *, settle: bool = True) -> None:
        """Handle the messages of another node; those that its identity has no right to send are ignored.

        A caller with several datagrams passes `settle=False` and calls `settle` once, for one kernel transaction.
        """
        now, names, name = self._clock.monotonic(), None, None
        highest = highest_epoch(self._clock.now())
        for word in words:
            if isinstance(word, Renewal | Renewed | Unlisted):
                self._heard_together(sender, word, now)
                continue
            terms = self.terms.get(word.address)
            if terms is None or word.epoch > highest:  # a lie, which would leave no epoch for the next owner
                continue
            if (own := self._names[word.address]) is not names:  # shared by most addresses
                names, name = own, own.get(sender)
            if name is not None:
                self._heard[name] = now
            if isinstance(word, Follow):
                if name is not None or sender.address in terms.senders:
                    self._followed(sender, word, now)
            elif name is not None:
                self._told(name, word, terms)
        if settle:
            self.settle()

    def _heard_together(self, sender: Identity, word: Together, now: float) -> None:
        name = self._peer_names.get(sender)
        if name is not None:
            self._heard[name] = now
        if isinstance(word, Renewal):
            unknown = Unlisted(word.digest, word.nonce)
            self.outbox.append((sender, self._voter.renewed(name, word, now) if name is not None else unknown))
        elif name is not None:
            self._answered_together(name, word, now)

    def _answered_together(self, voter: str, answer: Renewed | Unlisted, now: float) -> None:
        joint = self._joints.of(voter)
        if not joint.answered(answer):
            return
        self.votes.answered(voter, "", answer.nonce, now)
        if isinstance(answer, Unlisted):
            for address in list(joint.members):
                self._act(address, self._candidates[address].unlisted(voter, now))
        else:
            for address in [each for each in self._lively if each in joint.members]:  # steady addresses grow as a group
                self._act(address, self._candidates[address].renewed())

    def _renew_together(self, joints: Mapping[str, Joint], now: float) -> None:
        for voter, joint in joints.items():
            renewal = joint.ask(now)
            if voter == self._node:
                self._answered_together(voter, self._voter.renewed(voter, renewal, now), now)
            else:
                self.votes.asked(voter, "", renewal.nonce, now)
                self.outbox.append((self._peers[voter], renewal))

    def _wake(self, address: str) -> None:
        """Check an address by itself from now on, until its promises are renewed in a group again."""
        candidate = self._candidates.get(address)
        if candidate is not None and address not in self._lively:
            for group in self._steady.values():
                group.members.pop(address, None)
            self._lively[address] = candidate

    def _followed(self, sender: Identity, word: Follow, now: float) -> None:
        self._heralds[word.address].followed(sender, word.epoch, now)
        if (carrying := self.carrying.get(word.address)) is not None and word.epoch < carrying.epoch:
            self._untold.add(word.address)

    def tick(self) -> None:
        """Run everything that has become due."""
        now = self._clock.monotonic()
        for address in [each for each, until in self._rests.items() if until <= now]:
            del self._rests[address]
            if candidate := self._candidates.get(address):
                candidate.allow(self._may_stand(self.terms[address]))
        self.votes.tick(now)
        self._act("", self._voter.tick(now))
        renew = now - self._renewed >= Candidate.RENEWAL
        self._renewed = now if renew else self._renewed
        joints = self._joints.begin_round((*self._peers, self._node)) if renew else {}
        self._steady = {voters: group for voters, group in self._steady.items() if group.members}
        for voters, group in self._steady.items():
            lapsed = min(self._joints.until(voters), group.told) <= now
            if lapsed or (renew and not joints.keys() >= set(voters)):
                for address in list(group.members):
                    self._wake(address)
        for address, candidate in list(self._lively.items()):
            self._act(address, candidate.tick(now, renew=renew, together=joints))
            if address in self.carrying and self.told_kernel.get(address, now) < now:
                self._act(address, candidate.give_up())  # expired in the kernel: another candidate can serve it
            if candidate.steady:
                del self._lively[address]
                self._steady.setdefault(candidate.voters, SteadyGroup()).add(
                    address, self.told_kernel.get(address, now)
                )
        self._renew_together(joints, now)
        if now - self._said_follow >= FOLLOW:
            self._said_follow = now
            for address, known in self._followers.items():
                self._say_to(self.terms[address].candidates, Follow(address, known.epoch))
        self.settle()

    def probed(self, address: str, stranger: str) -> None:
        """Handle a probe result.

        `stranger` is the hardware address of a foreign host that uses the address; empty if none answered.
        """
        self.strangers.pop(address, None)
        if stranger:
            self.strangers[address] = stranger
        if candidate := self._candidates.get(address):
            self._wake(address)
            self._act(address, candidate.probed(bool(stranger), self._clock.monotonic()))
        self._moved(address)
        self.settle()

    def hand_over(self, *, whatever: bool = False) -> None:
        """Give addresses away for good: all, or only those with another candidate that was heard of lately."""
        now = self._clock.monotonic()
        self._leaving = True
        for address, candidate in self._candidates.items():
            self._wake(address)
            candidate.allow(False)
            others = self.terms[address].candidates.keys() - {self._node}
            if whatever or any(now - self._heard.get(each, float("-inf")) < _LATELY for each in others):
                self._act(address, candidate.give_up())
        self.settle()

    def _stand(self, address: str, terms: Terms) -> None:
        """Create, update or remove this node's candidacy."""
        candidate, now = self._candidates.get(address), self._clock.monotonic()
        if candidate is None:
            if self._node not in terms.candidates:
                return
            epoch = self._known.epochs.get(address, 0)
            line, voters = list(terms.candidates), list(terms.voters)
            candidate = Candidate(self._node, address, line, voters, epoch, self._joints)
            self._candidates[address] = self._lively[address] = candidate
        candidate.announced(max(terms.epoch, self._carried.get(address, 0)))
        candidate.allow(self._may_stand(terms))
        self._act(address, candidate.change(list(terms.candidates), list(terms.voters), now))
        if not terms.carriable:
            self._act(address, candidate.give_up())
        if self._node not in terms.candidates:
            del self._candidates[address]
            self._lively.pop(address, None)

    def _may_stand(self, terms: Terms) -> bool:
        return terms.carriable and not self._leaving and terms.address not in self._rests

    def _follow(self, address: str, terms: Terms) -> None:
        """Track the owner of an address: on nodes with pods that send from it, and on candidates."""
        if not terms.follows and self._node not in terms.candidates:
            self._followers.pop(address, None)
            return
        known = self._followers.get(address)
        if known is None:
            before = self._known.owners.get(address)
            known = self._followers[address] = Follower(before.epoch, before.name) if before else Follower()
            self._said_follow = float("-inf")  # ask the owner at once
        if terms.owner and terms.owner != self._node and known.told(terms.owner, terms.epoch, terms.candidates):
            self._owners_changed += 1
            self._lead(address, terms, terms.owner)

    def _told(self, sender: str, word: Word, terms: Terms) -> None:
        now = self._clock.monotonic()
        candidate = self._candidates.get(word.address)
        self._note_sign(sender, word, now)
        if isinstance(word, Grant | Refuse):
            self.votes.answered(sender, word.address, word.nonce, now)
        if not isinstance(word, Ask | Announced):
            self._wake(word.address)
        match word:
            case Ask():
                self._act(word.address, [self._voter.asked(sender, word, now)])
            case Release():
                if candidate is not None:
                    self._act(word.address, candidate.given_up(sender, now))
                self._act(word.address, self._voter.released(sender, word, now))
            case Announced():
                self._announced(sender, word, terms)
            case Grant() if candidate is not None:
                self._act(word.address, candidate.granted(sender, word, now))
            case Refuse() if candidate is not None:
                self._act(word.address, candidate.refused(sender, word, now))
            case Vacant() if candidate is not None:
                self._act(word.address, candidate.vacant(sender, word, now))
            case _:
                pass

    def _note_sign(self, sender: str, word: Word, now: float) -> None:
        """Record the last sign of an owner.

        It renews with the epoch that it announced, or a higher ballot; after a release it renews nothing.
        """
        known, before = self._followers.get(word.address), self._signs.get(word.address)
        if known is None or not isinstance(word, Ask | Release) or known.owner != sender or word.epoch < known.epoch:
            return
        if before is None or not before.farewell or (before.owner, before.epoch) != (sender, known.epoch):
            self._signs[word.address] = _Sign(sender, known.epoch, now, isinstance(word, Release))

    def _announced(self, sender: str, word: Announced, terms: Terms) -> None:
        if sender not in terms.candidates:
            return
        if self.strangers.pop(word.address, None) is not None:
            self._moved(word.address)  # its owner has probed for a foreign host after this node did
        self._note_carried(word.address, word.epoch)
        if candidate := self._candidates.get(word.address):
            candidate.announced(word.epoch)
        known = self._followers.get(word.address)
        if known is None:
            return
        if known.told(sender, word.epoch, terms.candidates):
            self._owners_changed += 1
            self._lead(word.address, terms, sender)
        self._say_to([sender], Follow(word.address, known.epoch))

    def _note_carried(self, address: str, epoch: int) -> None:
        """Record an epoch with an owner.

        Kept apart from the candidacy, which comes and goes with changes of Gateways.
        """
        self._carried[address] = max(self._carried.get(address, 0), epoch)

    def _lead(self, address: str, terms: Terms, owner: str) -> None:
        """Route packets that go out from an address to its owner on another node."""
        if address not in self.carrying:
            try:
                self._kernel.follow({address: terms.candidates[owner].address})
            except Exception as error:
                _log.warning("route to another gateway cannot be set, will retry", address=address, why=repr(error))
                self._followers[address] = Follower()  # so that its next announcement counts as a change
                self._owners_changed += 1

    def _act(self, address: str, effects: Iterable[Effect]) -> None:
        try:
            for effect in effects:
                self._do(effect)
        except Faults as fault:
            # The remaining effects are skipped: promises that are not released expire after the kernel's own lease.
            # This node pauses, or it would be the first to ask each time.
            self._rests[address] = self._clock.monotonic() + _REST
            if candidate := self._candidates.get(address):
                candidate.allow(False)
            _log.warning("kernel rejected a lease update", address=address, why=str(fault.__cause__ or fault))

    def _do(self, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                if to == self._node:
                    self._own.append((to, message))
                else:
                    if isinstance(message, Ask):
                        self.votes.asked(to, message.address, message.nonce, self._clock.monotonic())
                    self._say_to([to], message)
            case Own(address, epoch, until):
                try:
                    self._begin(address, epoch, until)
                except Faults:
                    self._act(address, self._candidates[address].give_up())  # so that the next candidate can try
                    raise
            case Renew(address, until):
                self._renewals[address] = until
            case Drop(address):
                self._end(address)
            case Probe(address):
                _log.info("probing for foreign use of an address", address=address)
                self._probe(address)

    def _begin(self, address: str, epoch: int, until: float) -> None:
        now = self._clock.monotonic()
        self._tell_kernel({address: until})
        self.strangers.pop(address, None)
        self.carrying[address] = self._origin(address, epoch, now)
        self._note_carried(address, epoch)
        self._heralds[address].restart()
        self._untold.add(address)
        if not self.terms[address].quiet:
            self._gratuitous += [(now + pause, address) for pause in _GRATUITOUS]
        if known := self._followers.get(address):
            known.epoch, known.owner = max(known.epoch, epoch), self._node
            self._owners_changed += 1
        own = self.carrying[address]
        _log.info("address acquired", address=address, epoch=epoch, cause=own.cause, former=own.former, gap=own.gap)
        self._moved(address)

    def _origin(self, address: str, epoch: int, now: float) -> Carrying:
        known, sign = self._followers.get(address), self._signs.pop(address, None)
        former = known.owner if known is not None else ""
        heard = sign if sign is not None and sign.owner == former else None
        cause: Cause = "First"
        if former:
            gone: Cause = "HandedOver" if heard is not None and heard.farewell else "Silent"
            cause = "Regained" if former == self._node else gone
        renewed = self._voter.last_promised(address) if heard is not None and not heard.farewell else float("-inf")
        gap = now - max(heard.at, renewed) if heard is not None else None
        self.taken[cause] += 1
        if gap is not None:
            self.gaps = [self.gaps[0] + gap, self.gaps[1] + 1]
        return Carrying(epoch, self._clock.now(), former, cause, gap)

    def _end(self, address: str) -> None:
        self._renewals.pop(address, None)
        self.told_kernel.pop(address, None)
        self._gratuitous = [each for each in self._gratuitous if each[1] != address]
        if self.carrying.pop(address, None) is not None:
            _log.info("address given up", address=address)
            self._moved(address)
        try:
            self._kernel.drop([address])
        except Exception as error:
            raise Faults from error
        # The next owner may have announced itself before this node noticed that it owns nothing any more (a suspended
        # agent or host). The follower knows that owner already, so no later announcement would count as a change.
        known, terms = self._followers.get(address), self.terms.get(address)
        if known is not None and terms is not None and known.owner != self._node and known.owner in terms.candidates:
            self._lead(address, terms, known.owner)

    def settle(self) -> None:
        """Deliver messages to itself, update the kernel once, and send announcements."""
        while self._own:
            _, message = self._own.popleft()
            if message.address in self.terms:
                self._told(self._node, message, self.terms[message.address])
        renewals, self._renewals = self._renewals, {}
        worth = {
            each: until
            for each, until in renewals.items()
            if each in self.carrying and abs(until - self.told_kernel.get(each, 0.0)) >= _WORTH
        }
        lasting = {voters: self._joints.until(voters) for voters, group in self._steady.items() if group.members}
        soon = self._clock.monotonic() + _AHEAD
        grown = {
            voters: until for voters, until in lasting.items() if self._steady[voters].told < min(soon, until - _WORTH)
        }
        for voters, until in grown.items():
            worth |= dict.fromkeys(self._steady[voters].members, until)
        try:
            self._tell_kernel(worth)
        except Faults as fault:
            _log.warning("lease renewal in the kernel failed", addresses=len(worth), why=str(fault.__cause__))
        else:
            for voters, until in grown.items():
                self._steady[voters].told = until
        self._announce()

    def _tell_kernel(self, lasting: Mapping[str, float]) -> None:
        """Serve addresses until the given times. Durations are computed right before the kernel call. Raises Faults."""
        if not lasting:
            return
        now = self._clock.monotonic()
        try:
            self._kernel.carry({each: until - now for each, until in lasting.items() if until > now})
            # The host may have been suspended between reading the clock and the kernel call. A lease that ended
            # meanwhile would live on in the kernel for its remaining time, beside the next gateway's: drop it at once.
            late = [each for each, until in lasting.items() if until <= self._clock.monotonic()]
            if late:
                self._kernel.drop(late)
        except Exception as error:
            raise Faults from error
        self.told_kernel |= lasting

    def _announce(self) -> None:
        now = self._clock.monotonic()
        due = sorted({address for at, address in self._gratuitous if at <= now}) if self._gratuitous else []
        if due:
            self._gratuitous = [each for each in self._gratuitous if each[0] > now]
            try:
                self._kernel.announce(due)
            except Exception as error:
                _log.warning("announcement on the segment failed", why=repr(error))
        for address in list(self._untold):
            carrying = self.carrying.get(address)
            if carrying is not None:
                for follower in self._heralds[address].due(carrying.epoch, now):
                    self.outbox.append((follower, Announced(address, carrying.epoch)))
            if carrying is None or self._heralds[address].is_known(carrying.epoch):
                self._untold.discard(address)

    def _say_to(self, names: Iterable[str], word: Word) -> None:
        terms = self.terms.get(word.address)
        for name in names:
            identity = terms.identity(name) if terms is not None and name != self._node else None
            if identity is not None:
                self.outbox.append((identity, word))
