"""Nodes that hold and vote for an address over a network that loses, delays, repeats and reorders, on inexact clocks.

Time is that of an observer. A node's own clock is ahead or behind by any amount, and a little too fast or too slow. A
node can pause (its kernel does not) and can restart, with nothing but its epochs.

The same nodes can hold and vote for a second address, which shares their voters, their joint renewals and their
messages with the first one. Only the first one has a kernel here.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Sequence
from itertools import count

from tarmac.decide.egress.lease import LASTS
from tarmac.decide.egress.lease.candidate import Candidate
from tarmac.decide.egress.lease.joint import Joints
from tarmac.decide.egress.lease.messages import (
    AddressProbe,
    Ask,
    Drop,
    Effect,
    Grant,
    Message,
    Own,
    Refuse,
    Release,
    Renew,
    Renewal,
    Renewed,
    Send,
    Together,
    Unlisted,
    Vacant,
)
from tarmac.decide.egress.lease.voter import Voter

ADDRESS, SECOND = "192.0.2.7", "192.0.2.8"
TICK = 0.05


class Node:
    """One machine: a voter, a candidate, and a kernel with addresses that expire."""

    def __init__(self, name: str, world: World, dice: random.Random) -> None:
        self.name, self._world = name, world
        self._ahead, self._rate = dice.uniform(-1e6, 1e6), 1 + dice.uniform(-0.0004, 0.0004)
        self.silent_at = float("-inf")  # when the kernel drops the address, on the node's clock; survives the agent
        self.relies_on: dict[str, float] = {}  # voter -> end of the promise on which the kernel relies
        self.frozen_until = float("-inf")
        self.asked_with: dict[str, int] = {}  # address -> epoch of the candidacy
        self.voted: dict[str, int] = {}
        self.stranger = False  # a foreign host has the address on the wire
        self.candidates, self.voters = world.candidates, world.voters
        self.start()

    @property
    def now(self) -> float:
        return self._ahead + self._rate * self._world.now

    @property
    def live(self) -> bool:
        return self.now < self.silent_at

    def start(self) -> None:
        self.voter, self.joints = Voter(self.now, self.voted), Joints()
        self._renewed = float("-inf")
        self.candidacies = {
            each: Candidate(self.name, each, self.candidates, self.voters, self.asked_with.get(each, 0), self.joints)
            for each in self._world.addresses
        }
        self.voter.serve(dict.fromkeys(self.candidacies, self.candidates))

    @property
    def candidate(self) -> Candidate:
        return self.candidacies[ADDRESS]

    def follow(self, candidates: Sequence[str], voters: Sequence[str]) -> None:
        """Apply a new generation of the Gateway, which also has the epoch of the last owner."""
        self.candidate.announced(max((epoch for _, _, epoch in self._world.owners), default=0))
        self.candidates, self.voters = candidates, voters
        self.voter.serve(dict.fromkeys(self.candidacies, candidates))
        self.act(self.candidate.change(candidates, voters, self.now))

    def tick(self) -> None:
        now = self.now
        renew = now - self._renewed >= Candidate.RENEWAL
        together = self.joints.begin_round(self.voters) if renew else {}
        self._renewed = now if renew else self._renewed
        self.act(self.voter.tick(now))
        for each in self.candidacies.values():
            self.act(each.tick(now, renew=renew, together=together))
        for voter, joint in together.items():
            self._world.send(self.name, voter, joint.ask(now))

    def receive(self, sender: str, message: Message | Together) -> None:
        match message:
            case Renewal():
                self._world.send(self.name, sender, self.voter.renewed(sender, message, self.now))
            case Renewed() | Unlisted():
                joint = self.joints.of(sender)
                if joint.answered(message):
                    for each in [self.candidacies[address] for address in joint.members]:
                        more = isinstance(message, Unlisted)
                        self.act(each.unlisted(sender, self.now) if more else each.renewed())
            case Ask():
                self.act([self.voter.asked(sender, message, self.now)])
            case Release():
                self.act(list(self.voter.released(sender, message, self.now)))
            case Grant():
                self.act(self.candidacies[message.address].granted(sender, message, self.now))
            case Refuse():
                self.act(self.candidacies[message.address].refused(sender, message, self.now))
            case Vacant():
                self.act(self.candidacies[message.address].vacant(sender, message, self.now))

    def act(self, effects: Sequence[Effect]) -> None:
        for address, each in self.candidacies.items():
            self.asked_with[address] = max(self.asked_with.get(address, 0), each.epoch)
        self.voted = self.voter.epochs
        for effect in effects:
            match effect:
                case Send(to, message):
                    self._world.send(self.name, to, message)
                case AddressProbe(address):
                    self.act(self.candidacies[address].probed(self.stranger, self.now))
                case _ if effect.address != ADDRESS:
                    pass
                case Own(_, epoch, until):
                    self._world.owned(self.name, epoch)
                    self._carry(until)
                case Renew(_, until):
                    self._carry(until)
                case Drop():
                    self.silent_at, self.relies_on = float("-inf"), {}

    def counted(self) -> dict[str, float]:
        """Return the end of each promise that this node's holder counts, by voter."""
        holder = self.candidate._holder
        return {each: holder._counted(each) + LASTS for each in holder._voters} if holder is not None else {}

    def _carry(self, until: float) -> None:
        self.silent_at = until
        self.relies_on = self.counted()
        if self.live:
            self._world.check(self.name)


class World:
    """The nodes and the network."""

    def __init__(
        self,
        seed: int,
        nodes: int,
        *,
        loss: float = 0.0,
        delay: float = 0.005,
        late: float = 0.0,
        addresses: Sequence[str] = (ADDRESS,),
    ) -> None:
        self.seed, self.dice, self.addresses = seed, random.Random(seed), addresses
        self.now = 0.0
        self.loss, self.delay, self.late = loss, delay, late
        self.cut: set[str] = set()
        self.owners: list[tuple[float, str, int]] = []
        self._order = count()
        self._queue: list[tuple[float, int, str, str, Message | Together]] = []
        self.said: Counter[str] = Counter()  # kind -> number of messages between nodes
        names = [f"n{number}" for number in range(nodes)]
        self.candidates, self.voters = tuple(names[: max(1, nodes - 1)]), tuple(names)
        self.nodes = {name: Node(name, self, self.dice) for name in names}

    def send(self, sender: str, to: str, message: Message | Together) -> None:
        self.said[type(message).__name__] += sender != to
        if sender != to and (self.dice.random() < self.loss or {sender, to} & self.cut):
            return
        for _ in range(2 if self.dice.random() < 0.05 else 1):
            takes = 0.0 if sender == to else self.dice.expovariate(1 / self.delay)
            takes += self.dice.uniform(0.3, 2.5) if sender != to and self.dice.random() < self.late else 0.0
            heapq.heappush(self._queue, (self.now + takes, next(self._order), sender, to, message))

    def owned(self, node: str, epoch: int) -> None:
        assert all(epoch > earlier for _, _, earlier in self.owners), "epochs decrease"
        self.owners.append((self.now, node, epoch))

    def check(self, node: str) -> None:
        others = [each.name for each in self.nodes.values() if each.live and each.name != node]
        assert not others, f"{node} and {others} both carry the address at {self.now}, seed {self.seed}"

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            step = min(self.now + TICK, end)
            while self._queue and self._queue[0][0] <= step:
                at, order, sender, to, message = heapq.heappop(self._queue)
                thaw = self.nodes[to].frozen_until
                if at < thaw:
                    heapq.heappush(self._queue, (thaw, order, sender, to, message))
                    continue
                self.now = max(self.now, at)
                self.observe()
                if to not in self.cut or sender == to:
                    self.nodes[to].receive(sender, message)
                    self.observe()
            self.now = step
            self.observe()
            for node in self.nodes.values():
                if self.now >= node.frozen_until:
                    node.tick()
                    self.observe()

    def observe(self) -> None:
        """Hook after every step of a node, and after every advance of time."""

    @property
    def owner(self) -> str | None:
        return next((each.name for each in self.nodes.values() if each.live), None)

    def epochs(self, address: str) -> list[int]:
        """Return the highest epoch that each voter has promised."""
        return [self.nodes[name].voter.epochs.get(address, 0) for name in self.voters]
