"""One node's part in all leases: its vote, its candidacies, whom it follows and whom it tells.

It is driven by words from other nodes, by time, and by what Gateways say; it drives the kernel, and puts what is to be
said into `outbox`. Everything happens in one thread. What the machines ask for is done in their order: an address is
dropped before the promises are given back on which it rested. Where the kernel refuses that, nothing is given back, so
that the lease runs out everywhere before somebody else gets it.

All leases of a node are renewed together: one message for each voter, however many addresses there are, and one
transaction of the kernel for what they answer.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tarmac.agent.external.leases.remembering import Known, Owner
from tarmac.agent.external.leases.terms import Identity, Terms
from tarmac.agent.external.leases.votes import Votes
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.decide.egress.lease.candidate import Candidate
from tarmac.decide.egress.lease.following import FOLLOW, Follower, Herald
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
    Send,
    Vacant,
    Word,
)
from tarmac.decide.egress.lease.voter import Voter

TICK: Final = 0.1
_WORTH: Final = 0.1  # by which a lease must have grown for the kernel to be told
_LATELY: Final = 2.0
_REST: Final = 10.0  # after the kernel did not do as it was told
_GRATUITOUS: Final = (0.0, 0.1, 0.6, 1.6, *(float(10 * n) for n in range(1, 7)))

_log = log("external")


class Kernel(Protocol):
    """What leases use of the datapath."""

    def follow(self, owners: Mapping[str, str]) -> None: ...
    def carry(self, seconds: Mapping[str, float]) -> None: ...
    def drop(self, addresses: Sequence[str]) -> None: ...
    def announce(self, addresses: Sequence[str]) -> None: ...


Cause = Literal["First", "HandedOver", "Silent", "Regained"]
"""Why an address has come here: nobody had it, its owner gave it up or was heard of no more, or it was here before."""


@dataclass(frozen=True, slots=True)
class Carrying:
    """That this node carries an address: the epoch that it won, and for people since when and whose it was before.

    `gap` is the time from the last sign of the owner before, its renewal or its farewell; None when there was none.
    """

    epoch: int
    since: float
    former: str = ""
    cause: Cause = "First"
    gap: float | None = None


@dataclass(frozen=True, slots=True)
class _Sign:
    """The last message of an owner about an address: a renewal, or its farewell."""

    owner: str
    epoch: int
    at: float
    farewell: bool


class Faults(Exception):
    """The kernel did not do as it was told."""


class LeaseNode:
    """All of it. `probe` begins to look for a stranger, whose answer comes to `probed`; `moved` hears of changes."""

    def __init__(
        self,
        node: str,
        kernel: Kernel,
        clock: Clock,
        known: Known,
        probe: Callable[[str], None],
        moved: Callable[[str], None],
    ) -> None:
        self.outbox: list[tuple[Identity, Word]] = []
        self.carrying: dict[str, Carrying] = {}
        self.strangers: dict[str, str] = {}
        self.taken: Counter[Cause] = Counter()  # how often addresses have come here, for metrics
        self.votes = Votes()
        self.gaps: list[float] = [0.0, 0]  # seconds in all, and how many were measured
        self.terms: dict[str, Terms] = {}
        self._node, self._kernel, self._clock = node, kernel, clock
        self._probe, self._moved = probe, moved
        self._known = known
        self._voter = Voter(clock.monotonic(), known.epochs)
        self._candidates: dict[str, Candidate] = {}
        self._followers: dict[str, Follower] = {}
        self._heralds: dict[str, Herald[Identity]] = {}
        self._heard: dict[str, float] = {}  # node -> when
        self._signs: dict[str, _Sign] = {}  # by address
        self.told_kernel: dict[str, float] = {}  # until when it carries an address
        self._renewals: dict[str, float] = {}
        self._gratuitous: list[tuple[float, str]] = []
        self._said_follow = float("-inf")
        self._renewed = float("-inf")  # when the last round of renewals began
        self._untold = True  # whether a follower may have to be told of an owner, or the kernel of a lease
        self._names: dict[str, dict[Identity, str]] = {}  # candidates and voters of each address
        self._leaving = False
        self._rests: dict[str, float] = {}  # address -> until when this node does not stand for it
        self._carried: dict[str, int] = {}  # address -> the highest epoch in which somebody is known to have carried it
        self._own: deque[tuple[str, Message]] = deque()  # from this node's candidates to its voter, and back

    @property
    def known(self) -> Known:
        """What the next life of this agent has to know, to be on the disk before anything that follows is said."""
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
        """Follow the Gateways."""
        gone = self._candidates.keys() - terms.keys()
        for address in sorted(gone):
            self._act(address, self._candidates.pop(address).give_up())
        self.terms = dict(terms)
        self._names = {each.address: each.names() for each in terms.values()}
        for address, each in terms.items():
            self._stand(address, each)
            self._follow(address, each)
        self._followers = {each: known for each, known in self._followers.items() if each in terms}
        self._carried = {each: epoch for each, epoch in self._carried.items() if each in terms}
        self._heralds = {each: self._heralds.get(each) or Herald() for each in terms}
        voted = {each.address: list(each.candidates) for each in terms.values() if self._node in each.voters}
        self._voter.serve(voted)
        self.settle()

    def heard(self, sender: Identity, words: Iterable[Word], *, settle: bool = True) -> None:
        """Handle the messages of another node; those that its identity has no right to send are ignored.

        A caller with several datagrams passes `settle=False` and calls `settle` once, for one kernel transaction.
        """
        for word in words:
            terms = self.terms.get(word.address)
            name = self._names[word.address].get(sender) if terms is not None else None
            if name is not None:
                self._heard[name] = self._clock.monotonic()
            if isinstance(word, Follow):
                if terms is not None and (name is not None or sender.address in terms.senders):
                    self._untold = True
                    self._heralds[word.address].followed(sender, word.epoch, self._clock.monotonic())
            elif name is not None and terms is not None:
                self._told(name, word, terms)
        if settle:
            self.settle()

    def tick(self) -> None:
        """Whatever time has made due."""
        now = self._clock.monotonic()
        for address in [each for each, until in self._rests.items() if until <= now]:
            del self._rests[address]
            if candidate := self._candidates.get(address):
                candidate.allow(self._may_stand(self.terms[address]))
        self.votes.tick(now)
        self._act("", self._voter.tick(now))
        renew = now - self._renewed >= Candidate.RENEWAL
        self._renewed = now if renew else self._renewed
        for address, candidate in list(self._candidates.items()):
            self._act(address, candidate.tick(now, renew=renew))
            if address in self.carrying and self.told_kernel.get(address, now) < now:
                self._act(address, candidate.give_up())  # the kernel is silent: somebody else can do better
        if now - self._said_follow >= FOLLOW:
            self._said_follow = now
            for address, known in self._followers.items():
                self._say_to(self.terms[address].candidates, Follow(address, known.epoch))
        self._untold = True
        self.settle()

    def probed(self, address: str, stranger: str) -> None:
        """Whoever has the address on its segment; nobody, if that is empty."""
        self.strangers.pop(address, None)
        if stranger:
            self.strangers[address] = stranger
        if candidate := self._candidates.get(address):
            self._act(address, candidate.probed(bool(stranger), self._clock.monotonic()))
        self._moved(address)
        self.settle()

    def hand_over(self, *, whatever: bool = False) -> None:
        """Give addresses to others for good: those that somebody else could take, who was heard of lately, or all."""
        now = self._clock.monotonic()
        self._leaving = True
        for address, candidate in self._candidates.items():
            candidate.allow(False)
            others = self.terms[address].candidates.keys() - {self._node}
            if whatever or any(now - self._heard.get(each, float("-inf")) < _LATELY for each in others):
                self._act(address, candidate.give_up())
        self.settle()

    def _stand(self, address: str, terms: Terms) -> None:
        """Be a candidate, or none any more."""
        candidate, now = self._candidates.get(address), self._clock.monotonic()
        if candidate is None:
            if self._node not in terms.candidates:
                return
            epoch = self._known.epochs.get(address, 0)
            candidate = Candidate(self._node, address, list(terms.candidates), list(terms.voters), epoch)
            self._candidates[address] = candidate
        candidate.announced(max(terms.epoch, self._carried.get(address, 0)))
        candidate.allow(self._may_stand(terms))
        self._act(address, candidate.change(list(terms.candidates), list(terms.voters), now))
        if not terms.carriable:
            self._act(address, candidate.give_up())
        if self._node not in terms.candidates:
            del self._candidates[address]

    def _may_stand(self, terms: Terms) -> bool:
        return terms.carriable and not self._leaving and terms.address not in self._rests

    def _follow(self, address: str, terms: Terms) -> None:
        """Know who carries an address: where pods send by it, and where it may be carried next."""
        if not terms.follows and self._node not in terms.candidates:
            self._followers.pop(address, None)
            return
        known = self._followers.get(address)
        if known is None:
            before = self._known.owners.get(address)
            known = self._followers[address] = Follower(before.epoch, before.name) if before else Follower()
            self._said_follow = float("-inf")  # the owner may be asked at once
        if terms.owner and terms.owner != self._node and known.told(terms.owner, terms.epoch, terms.candidates):
            self._lead(address, terms, terms.owner)

    def _told(self, sender: str, word: Word, terms: Terms) -> None:
        now = self._clock.monotonic()
        candidate = self._candidates.get(word.address)
        self._note_sign(sender, word, now)
        if isinstance(word, Grant | Refuse):
            self.votes.answered(sender, word, now)
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
        """An owner renews with the epoch that it announced, or a higher ballot; after a farewell it renews nothing."""
        known, before = self._followers.get(word.address), self._signs.get(word.address)
        if known is None or not isinstance(word, Ask | Release) or known.owner != sender or word.epoch < known.epoch:
            return
        if before is None or not before.farewell or (before.owner, before.epoch) != (sender, known.epoch):
            self._signs[word.address] = _Sign(sender, known.epoch, now, isinstance(word, Release))

    def _announced(self, sender: str, word: Announced, terms: Terms) -> None:
        if sender not in terms.candidates:
            return
        if self.strangers.pop(word.address, None) is not None:
            self._moved(word.address)  # whoever carries it has looked for a stranger after this node did
        self._note_carried(word.address, word.epoch)
        if candidate := self._candidates.get(word.address):
            candidate.announced(word.epoch)
        known = self._followers.get(word.address)
        if known is None:
            return
        if known.told(sender, word.epoch, terms.candidates):
            self._lead(word.address, terms, sender)
        self._say_to([sender], Follow(word.address, known.epoch))

    def _note_carried(self, address: str, epoch: int) -> None:
        """Beyond this node's candidacy, which ends and begins with what Gateways say."""
        self._carried[address] = max(self._carried.get(address, 0), epoch)

    def _lead(self, address: str, terms: Terms, owner: str) -> None:
        """Send what goes out by an address to another node."""
        if address not in self.carrying:
            try:
                self._kernel.follow({address: terms.candidates[owner].address})
            except Exception as error:
                _log.warning("packets are not led to another gateway yet", address=address, why=repr(error))
                self._followers[address] = Follower()  # so that the next word of it is news again

    def _act(self, address: str, effects: Iterable[Effect]) -> None:
        try:
            for effect in effects:
                self._do(effect)
        except Faults as fault:
            # What would have followed is not said: promises that are not given back lapse after the kernel has. And
            # this node stays out of the way for a while, or it would be the first to ask each time.
            self._rests[address] = self._clock.monotonic() + _REST
            if candidate := self._candidates.get(address):
                candidate.allow(False)
            _log.warning("the kernel does not follow a lease", address=address, why=str(fault.__cause__ or fault))

    def _do(self, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                if to == self._node:
                    self._own.append((to, message))
                else:
                    if isinstance(message, Ask):
                        self.votes.asked(to, message, self._clock.monotonic())
                    self._say_to([to], message)
            case Own(address, epoch, until):
                try:
                    self._begin(address, epoch, until)
                except Faults:
                    self._act(address, self._candidates[address].give_up())  # so that the next in line can try
                    raise
            case Renew(address, until):
                self._renewals[address] = until
            case Drop(address):
                self._end(address)
            case Probe(address):
                _log.info("looks whether somebody else has an address", address=address)
                self._probe(address)

    def _begin(self, address: str, epoch: int, until: float) -> None:
        now = self._clock.monotonic()
        self._tell_kernel({address: until})
        self.strangers.pop(address, None)
        self.carrying[address] = self._origin(address, epoch, now)
        self._note_carried(address, epoch)
        self._heralds[address].restart()
        self._untold = True
        if not self.terms[address].quiet:
            self._gratuitous += [(now + pause, address) for pause in _GRATUITOUS]
        if known := self._followers.get(address):
            known.epoch, known.owner = max(known.epoch, epoch), self._node
        own = self.carrying[address]
        _log.info("carries an address", address=address, epoch=epoch, cause=own.cause, former=own.former, gap=own.gap)
        self._moved(address)

    def _origin(self, address: str, epoch: int, now: float) -> Carrying:
        known, sign = self._followers.get(address), self._signs.pop(address, None)
        former = known.owner if known is not None else ""
        heard = sign if sign is not None and sign.owner == former else None
        cause: Cause = "First"
        if former:
            gone: Cause = "HandedOver" if heard is not None and heard.farewell else "Silent"
            cause = "Regained" if former == self._node else gone
        gap = now - heard.at if heard is not None else None
        self.taken[cause] += 1
        if gap is not None:
            self.gaps = [self.gaps[0] + gap, self.gaps[1] + 1]
        return Carrying(epoch, self._clock.now(), former, cause, gap)

    def _end(self, address: str) -> None:
        self._renewals.pop(address, None)
        self.told_kernel.pop(address, None)
        self._gratuitous = [each for each in self._gratuitous if each[1] != address]
        if self.carrying.pop(address, None) is not None:
            _log.info("carries an address no more", address=address)
            self._moved(address)
        try:
            self._kernel.drop([address])
        except Exception as error:
            raise Faults from error
        # The next owner may have announced itself before this node noticed that it carries nothing any more: an agent
        # or a machine that stood still. The follower knows it, so no later word of it would be news.
        known, terms = self._followers.get(address), self.terms.get(address)
        if known is not None and terms is not None and known.owner != self._node and known.owner in terms.candidates:
            self._lead(address, terms, known.owner)

    def settle(self) -> None:
        """Deliver what this node says to itself, tell the kernel, and say what owners have to say."""
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
        try:
            self._tell_kernel(worth)
        except Faults as fault:
            _log.warning("leases are not renewed in the kernel", addresses=len(worth), why=str(fault.__cause__))
        if self._untold:
            self._untold = False
            self._announce()

    def _tell_kernel(self, lasting: Mapping[str, float]) -> None:
        """Carry addresses until so far; what is left is worked out right before the kernel is told. Raises Faults."""
        if not lasting:
            return
        now = self._clock.monotonic()
        try:
            self._kernel.carry({each: until - now for each, until in lasting.items() if until > now})
            # The node may have stood still between the clock above and the kernel's word. What has ended meanwhile
            # would live on there for what it had left, beside the next gateway's: it is taken back first of all.
            late = [each for each, until in lasting.items() if until <= self._clock.monotonic()]
            if late:
                self._kernel.drop(late)
        except Exception as error:
            raise Faults from error
        self.told_kernel |= lasting

    def _announce(self) -> None:
        now = self._clock.monotonic()
        due = sorted({address for at, address in self._gratuitous if at <= now})
        if due:
            self._gratuitous = [each for each in self._gratuitous if each[0] > now]
            try:
                self._kernel.announce(due)
            except Exception as error:
                _log.warning("addresses are not announced on their segment", why=repr(error))
        for address, carrying in self.carrying.items():
            for follower in self._heralds[address].due(carrying.epoch, now):
                self.outbox.append((follower, Announced(address, carrying.epoch)))

    def _say_to(self, names: Iterable[str], word: Word) -> None:
        terms = self.terms.get(word.address)
        for name in names:
            identity = terms.identity(name) if terms is not None and name != self._node else None
            if identity is not None:
                self.outbox.append((identity, word))
