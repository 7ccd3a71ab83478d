"""Nodes agree on the owner of an address and route to it: the real state machines, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from tarmac.agent.egress.leases.addressconfig import AddressConfig, PeerIdentity
from tarmac.agent.egress.leases.checkpoint import LeaseState, Owner
from tarmac.agent.egress.leases.participant import TICK, LeaseParticipant
from tarmac.base.clock import ManualClock
from tarmac.decide.egress.lease import LEASE
from tarmac.decide.egress.lease.messages import Announced, Ask, Refuse, Release, Together, Vacant, Word
from tests.attacking import TWICE

ADDRESS = "192.0.2.5"
NAMES = ("a", "b", "c", "d")
HERE = "here"
IDENTITIES = {name: PeerIdentity(f"198.18.0.{n}", name.encode() * 32) for n, name in enumerate(NAMES, 1)}
TERMS = AddressConfig(
    ADDRESS,
    {name: IDENTITIES[name] for name in "ab"},
    {name: IDENTITIES[name] for name in "abc"},
    senders=frozenset([IDENTITIES["d"].address]),
)


class Kernel:
    """A node's kernel in memory. Its addresses expire by themselves."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.until = float("-inf")
        self.follows = ""
        self.announced: list[float] = []
        self.broken = False
        self.stands_still = 0.0  # seconds that pass, once, before the kernel carries an address

    @property
    def live(self) -> bool:
        return self.until > self._clock.monotonic()

    def follow(self, owners: Mapping[str, str]) -> None:
        self.follows = owners[ADDRESS]

    def carry(self, seconds: Mapping[str, float]) -> None:
        if self.broken:
            raise OSError("no such table")
        self._clock.advance(self.stands_still)
        self.stands_still = 0.0
        if ADDRESS in seconds:
            self.until = self._clock.monotonic() + seconds[ADDRESS]
            self.follows = HERE

    def drop(self, addresses: Sequence[str]) -> None:
        if self.broken:
            raise OSError("no such table")
        self.until = float("-inf")
        self.follows = "" if self.follows == HERE else self.follows

    def announce(self, addresses: Sequence[str]) -> None:
        self.announced.append(self._clock.monotonic())


class Planet:
    """Four nodes: a and b may carry, a, b and c vote, d has pods. Messages arrive at once, unless a node is cut off."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.kernels = {name: Kernel(self.clock) for name in NAMES}
        self.nodes: dict[str, LeaseParticipant] = {}
        self.cut: set[str] = set()
        self.foreign_hosts = ""
        self.probes = 0
        self.disks: dict[str, LeaseState] = {}
        self.said: list[tuple[str, Word | Together]] = []
        for name in NAMES:
            self.start(name)

    def start(self, name: str, terms: AddressConfig = TERMS) -> None:
        known = self.disks.get(name, LeaseState())
        node = LeaseParticipant(
            name, self.kernels[name], self.clock, known, lambda _: self._probe(name), lambda _: None
        )
        self.nodes[name] = node
        self.serve(name, terms)

    def serve(self, name: str, terms: AddressConfig = TERMS) -> None:
        own = replace(terms, can_own=name in terms.candidates, routes_through=name == "d")
        self.nodes[name].serve({ADDRESS: own})
        self.deliver()

    def stop(self, name: str) -> None:
        self.disks[name] = self.nodes.pop(name).state

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK)):
            self.clock.advance(TICK)
            for node in list(self.nodes.values()):
                node.tick()
                self.deliver()
            assert len(self.live) <= 1, "two nodes carry the address"

    @property
    def live(self) -> list[str]:
        return [name for name, kernel in self.kernels.items() if kernel.live]

    def _probe(self, name: str) -> None:
        self.probes += 1
        self._answers = getattr(self, "_answers", [])
        self._answers.append(name)

    def deliver(self) -> None:
        """Deliver all messages, including the responses to them."""
        while True:
            for name in self.__dict__.pop("_answers", []):
                self.nodes[name].probed(ADDRESS, self.foreign_hosts)
            moving = [(name, *each) for name in self.nodes for each in self._outgoing(name)]
            if not moving and "_answers" not in self.__dict__:
                return
            for sender, to, word in moving:
                self.said.append((sender, word))
                receiver = next(name for name, each in IDENTITIES.items() if each == to)
                if receiver in self.nodes and not {sender, receiver} & self.cut:
                    self.nodes[receiver].receive(IDENTITIES[sender], [word])

    def _outgoing(self, name: str) -> Iterator[tuple[PeerIdentity, Word | Together]]:
        outbox, self.nodes[name].outbox = self.nodes[name].outbox, []
        yield from outbox


@pytest.fixture
def planet() -> Planet:
    made = Planet()
    made.wait(LEASE + 1.0)
    return made


def test_a_node_that_stood_still_before_its_kernel_heard_of_a_lease_takes_it_back_at_once(planet: Planet) -> None:
    kernel = planet.kernels["a"]
    kernel.stands_still = LEASE + 1.0
    while kernel.stands_still:
        planet.clock.advance(TICK)
        planet.nodes["a"].tick()
        planet.deliver()
    assert not kernel.live


def test_the_first_in_line_carries_it_and_everybody_who_sends_by_it_follows(planet: Planet) -> None:
    assert planet.live == ["a"]
    assert planet.kernels["d"].follows == IDENTITIES["a"].address
    assert planet.probes == 1
    planet.wait(5)
    assert planet.live == ["a"]
    at = [round(each - planet.kernels["a"].announced[0], 1) for each in planet.kernels["a"].announced]
    assert at == [0.0, 0.1, 0.6, 1.6]


def test_a_gateway_that_dies_is_followed_by_the_next_when_its_lease_has_run_out(planet: Planet) -> None:
    planet.stop("a")
    planet.wait(LEASE - 0.5)
    assert planet.live in ([], ["a"])
    planet.wait(0.8)
    assert planet.live == ["b"]
    assert planet.kernels["d"].follows == IDENTITIES["b"].address
    planet.start("a")
    planet.wait(5)
    assert planet.live == ["b"], "no automatic fail-back"
    assert planet.probes == 1, "no node probes for foreign hosts where a gateway has been"


@pytest.mark.parametrize("seconds", [LEASE + 0.5, 4.0, 60.0])
def test_pods_beside_a_gateway_that_stood_still_send_to_the_one_that_took_over(planet: Planet, seconds: float) -> None:
    """Messages that arrived during the pause are handled before timeouts."""
    paused = planet.nodes.pop("a")
    planet.wait(seconds)
    assert planet.live == ["b"]
    missed = [word for sender, word in planet.said if sender == "b" and isinstance(word, Announced)]
    planet.nodes["a"] = paused
    paused.receive(IDENTITIES["b"], missed[-1:])
    planet.deliver()
    planet.wait(3)
    assert planet.live == ["b"]
    assert planet.kernels["a"].follows == IDENTITIES["b"].address


def test_a_takeover_records_former_owner_cause_and_gap(planet: Planet) -> None:
    assert planet.nodes["a"].owned[ADDRESS].cause == "First"
    planet.stop("a")
    planet.wait(3)
    taken = planet.nodes["b"].owned[ADDRESS]
    assert (taken.former, taken.cause) == ("a", "Silent")
    assert taken.gap is not None
    assert LEASE - 0.5 <= taken.gap <= LEASE + 0.5
    planet.start("a")
    planet.wait(3)
    planet.nodes["b"].hand_over()
    planet.deliver()
    planet.wait(0.3)
    taken = planet.nodes["a"].owned[ADDRESS]
    assert (taken.former, taken.cause) == ("b", "HandedOver")
    assert taken.gap is not None
    assert taken.gap <= 0.3
    assert planet.nodes["a"].takeovers == {"HandedOver": 1}
    planet.stop("b")
    planet.stop("c")
    planet.wait(3)
    assert planet.live == [], "alone, it has no majority"
    planet.start("c")
    planet.wait(5)
    assert planet.nodes["a"].owned[ADDRESS].cause == "Regained"


def test_answers_of_voters_are_timed_and_those_that_never_come_are_counted(planet: Planet) -> None:
    votes = planet.nodes["a"].votes
    assert set(votes.seconds) == {"b", "c"}
    assert not votes.lost
    planet.cut.add("c")
    planet.wait(LEASE + 1)
    assert votes.lost["c"] >= 2
    assert not votes.lost["b"]


def test_one_that_is_cut_off_goes_silent_before_another_begins(planet: Planet) -> None:
    planet.cut.add("a")
    planet.wait(3)
    assert planet.live == ["b"]
    planet.cut.clear()
    planet.wait(3)
    assert planet.live == ["b"]


def test_one_that_says_goodbye_is_followed_at_once(planet: Planet) -> None:
    planet.nodes["a"].hand_over()
    planet.deliver()
    assert planet.live == ["b"], "followers do not wait for the previous owner's lease"
    assert planet.kernels["d"].follows == IDENTITIES["b"].address
    planet.serve("a")
    planet.nodes["b"].hand_over(force=True)
    planet.wait(3)
    assert planet.live == [], "a node that hands over does not become owner again"


def test_one_that_nobody_can_follow_goes_on_until_its_lease_ends(planet: Planet) -> None:
    planet.stop("b")
    planet.wait(3)
    planet.nodes["a"].hand_over()
    assert planet.live == ["a"]


def test_one_that_is_no_candidate_any_more_hands_over(planet: Planet) -> None:
    cordoned = replace(TERMS, candidates={"b": IDENTITIES["b"]})
    for name in NAMES:
        planet.serve(name, cordoned)
    planet.wait(0.3)
    assert planet.live == ["b"]


def test_one_that_may_carry_again_looks_for_no_stranger_before_it_takes_over(planet: Planet) -> None:
    """A probe would cost 0.3 seconds, in which no packet passes."""
    for out in ("a", "b"):
        for name in NAMES:
            planet.serve(
                name,
                replace(TERMS, candidates={each: known for each, known in TERMS.candidates.items() if each != out}),
            )
        planet.wait(0.3)
        for name in NAMES:
            planet.serve(name)
    assert planet.live == ["a"]
    assert planet.probes == 1, "the first owner's probe"


def test_an_agent_that_starts_anew_carries_on_and_sends_to_where_it_sent(planet: Planet) -> None:
    for name in ("a", "d"):
        planet.stop(name)
    assert planet.disks["d"].owners[ADDRESS].node_address == IDENTITIES["a"].address
    epoch = planet.disks["a"].epochs[ADDRESS]
    assert epoch > 0
    for name in ("a", "d"):
        planet.start(name)
    planet.wait(3)
    assert len(planet.live) == 1
    assert planet.kernels["d"].follows == IDENTITIES[planet.live[0]].address
    winner = planet.nodes[planet.live[0]].owned[ADDRESS]
    assert winner.epoch > epoch


def test_a_stranger_who_has_the_address_keeps_it_from_being_carried() -> None:
    planet = Planet()
    planet.foreign_hosts = "02:00:00:00:00:09"
    planet.wait(5)
    assert planet.live == []
    assert planet.nodes["a"].foreign_hosts == {ADDRESS: "02:00:00:00:00:09"}
    assert planet.probes == 2, "each candidate has probed once, and probes again after a minute"
    planet.foreign_hosts = ""
    planet.wait(61)
    assert len(planet.live) == 1
    assert not any(node.foreign_hosts for node in planet.nodes.values()), "the other candidate cleared it too"


def test_a_kernel_that_does_not_take_it_leaves_it_to_the_next() -> None:
    planet = Planet()
    planet.kernels["a"].broken = True
    planet.wait(6)
    assert planet.live == ["b"]
    assert not planet.nodes["a"].owned


def test_a_kernel_that_fails_later_gives_nothing_back_before_it_is_silent(planet: Planet) -> None:
    planet.said.clear()
    planet.kernels["a"].broken = True
    planet.wait(LEASE + 2)
    assert ("a", Release(ADDRESS, 1)) not in planet.said, "still carried, so the lease may not be released"
    assert planet.live == ["b"]


def test_nobody_speaks_for_another(planet: Planet) -> None:
    follower, known = planet.nodes["d"], planet.kernels["d"].follows
    stolen_key = PeerIdentity(IDENTITIES["c"].address, IDENTITIES["b"].key)
    stolen_address = PeerIdentity(IDENTITIES["b"].address, b"x" * 32)
    for liar in (stolen_key, stolen_address, IDENTITIES["c"], IDENTITIES["d"]):
        follower.receive(liar, [Announced(ADDRESS, 1000)])
    assert planet.kernels["d"].follows == known, "a voter that is no candidate, or a node that is no voter"
    for voter in "bc":
        planet.nodes[voter].receive(stolen_key, [Release(ADDRESS, 1)])
    planet.wait(3)
    assert planet.live == ["a"]


@pytest.mark.parametrize("claims", ["the address", "the key"])
@TWICE
def test_a15_a_node_says_that_it_is_a_gateway_and_owns_the_address(
    planet: Planet, monkeypatch: pytest.MonkeyPatch, claims: str, defended: bool
) -> None:
    """The attacker has the address or the key of a candidate; the other half is its own."""
    own, candidate = IDENTITIES["c"], IDENTITIES["b"]
    liar = (
        PeerIdentity(candidate.address, own.key)
        if claims == "the address"
        else PeerIdentity(own.address, candidate.key)
    )

    def by_half(terms: AddressConfig) -> dict[PeerIdentity, str]:
        known = terms.candidates.items()
        return {PeerIdentity(one.address, other.key): name for name, one in known for other in IDENTITIES.values()} | {
            PeerIdentity(other.address, one.key): name for name, one in known for other in IDENTITIES.values()
        }

    before = planet.kernels["d"].follows
    assert before == IDENTITIES["a"].address
    if not defended:
        monkeypatch.setattr(AddressConfig, "names", by_half)
        planet.serve("d")
    planet.nodes["d"].receive(liar, [Announced(ADDRESS, 1000)])
    assert planet.kernels["d"].follows == (before if defended else candidate.address)


@pytest.mark.parametrize("lie", [Vacant(ADDRESS, 2**61), Refuse(ADDRESS, 2**61, 1), Ask(ADDRESS, 2**61, 1)])
def test_a_hostile_voter_cannot_use_up_the_epochs_of_an_address(lie: Word) -> None:
    """Every owner continues above the highest epoch that it knows: a huge one would leave none for the next."""
    planet = Planet()
    planet.wait(3)
    for _ in range(3):
        for name in "ab":
            planet.nodes[name].receive(IDENTITIES["c"], [lie])
        planet.nodes["c"].receive(IDENTITIES["b"], [lie])
        planet.deliver()
        planet.wait(1)
    (owner,) = planet.live
    planet.stop(owner)
    planet.wait(LEASE + 2)
    (other,) = planet.live
    assert other != owner
    assert planet.nodes[other].state.epochs[ADDRESS] < 1000


def test_an_epoch_that_was_written_down_before_the_bound_is_forgotten() -> None:
    planet = Planet()
    for name in NAMES:
        planet.stop(name)
        planet.disks[name] = LeaseState({ADDRESS: 2**61}, {ADDRESS: Owner(2**61, "a", IDENTITIES["a"].address)})
    for name in NAMES:
        planet.start(name)
    planet.wait(LEASE + 2)
    (owner,) = planet.live
    assert planet.nodes[owner].state.epochs[ADDRESS] < 1000
