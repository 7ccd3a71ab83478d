"""One node's part in all leases: its vote, its candidacies, the owners that it routes to and the followers it informs.

Driven by messages of other nodes, by time, and by Gateways; it drives the kernel, and puts outgoing messages into
`outbox`. Everything runs in one thread. Effects are executed in order: an address is dropped from the kernel before the
promises that it rested on are released. If the kernel fails to drop it, nothing is released, so the lease expires
everywhere before another node gets it. Kernel updates of a step are made together at its end (`settle`).

All leases are renewed together: one message per voter, and one kernel transaction for the answers. An unchanged address
is `steady`, and checked only as part of the group with the same voters.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tarmac.agent.egress.leases.addressconfig import AddressConfig, PeerIdentity
from tarmac.agent.egress.leases.checkpoint import LeaseState, Owner
from tarmac.agent.egress.leases.kernelupdates import Kernel, KernelCallFailed, PendingUpdates, call_together, own_until
from tarmac.agent.egress.leases.ownership import Cause, LastSign, Ownership
from tarmac.agent.egress.leases.votes import VoterMetrics
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.decide.egress.lease.candidate import Candidate
from tarmac.decide.egress.lease.epochs import highest_epoch
from tarmac.decide.egress.lease.following import FOLLOW, Follower, OwnerAnnouncer
from tarmac.decide.egress.lease.joint import Joint, Joints, SteadyGroup
from tarmac.decide.egress.lease.messages import (
    AddressProbe,
    Announced,
    Ask,
    Drop,
    Effect,
    Follow,
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
    Word,
)
from tarmac.decide.egress.lease.voter import Voter

TICK: Final = 0.1
_MIN_GROWTH: Final = 0.1  # minimum growth of a lease for a kernel update
_WRITE_AHEAD: Final = 0.6
"""Seconds before expiry in the kernel at which jointly renewed promises are written to it.

That happens in every second round. The kernel update is the main cost of a renewal, and all promises received until
then still arrive there in time.
"""
_MAX_SILENCE: Final = 2.0
_PAUSE: Final = 10.0  # pause after a failed kernel call
_ANNOUNCEMENT_DELAYS: Final = (0.0, 0.1, 0.6, 1.6, *(float(10 * n) for n in range(1, 7)))

_log = log("external")


class LeaseParticipant:
    """State of all leases.

    `probe` starts a search for a foreign host, its result goes to `probed`; `moved` gets changes.
    """

    def __init__(
        self,
        node: str,
        kernel: Kernel,
        clock: Clock,
        known: LeaseState,
        probe: Callable[[str], None],
        moved: Callable[[str], None],
    ) -> None:
        self.outbox: list[tuple[PeerIdentity, Word | Together]] = []
        self.owned: dict[str, Ownership] = {}
        self.foreign_hosts: dict[str, str] = {}
        self.takeovers: Counter[Cause] = Counter()  # takeovers by this node, for metrics
        self.votes = VoterMetrics()
        self.gaps: list[float] = [0.0, 0]  # seconds in total, and number of measurements
        self.configs: dict[str, AddressConfig] = {}
        self._node, self._kernel, self._clock = node, kernel, clock
        self._probe, self._moved = probe, moved
        self._known = known.plausible(highest_epoch(clock.now()))
        self._voter = Voter(clock.monotonic(), self._known.epochs)
        self._candidates: dict[str, Candidate] = {}
        self._joints = Joints()
        self._active: dict[str, Candidate] = {}  # checked in every tick
        self._steady: dict[tuple[str, ...], SteadyGroup] = {}  # all remaining candidates, by voters
        self._peers: dict[str, PeerIdentity] = {}  # nodes with the same identity in all terms
        self._peer_names: dict[PeerIdentity, str] = {}
        self._followers: dict[str, Follower] = {}
        self._announcers: dict[str, OwnerAnnouncer[PeerIdentity]] = {}
        self._last_heard: dict[str, float] = {}  # node -> when
        self._signs: dict[str, LastSign] = {}  # by address
        self.kernel_until: dict[str, float] = {}  # address -> time until which the kernel serves it
        self._renewals: dict[str, float] = {}
        self._pending = PendingUpdates()
        self._announcements: list[tuple[float, str]] = []
        self._follow_sent_at = float("-inf")
        self._renewed_at = float("-inf")  # start of the last round of renewals
        self._unannounced: set[str] = set()  # owned addresses that some follower may not know of
        self._names: dict[str, dict[PeerIdentity, str]] = {}  # candidates and voters of each address
        self._leaving = False
        self._paused_until: dict[str, float] = {}  # address -> time until which this node is no candidate for it
        self._owned_epochs: dict[str, int] = {}  # address -> the highest epoch that is known to have had an owner
        self._local_messages: deque[tuple[str, Message]] = deque()  # between this node's candidates and its voter
        self._owners_changed = 0

    @property
    def changes(self) -> tuple[int, int]:
        """A value that changes whenever `state` may differ in more than the epochs of this node's own requests."""
        return self._voter.changes, self._owners_changed

    @property
    def state(self) -> LeaseState:
        """The state for the next agent process. It must be on disk before any message that depends on it is sent."""
        found = self._voter.epochs
        for address, candidate in self._candidates.items():
            found[address] = max(found.get(address, 0), candidate.epoch)
        owners = {
            address: Owner(known.epoch, known.owner, config.candidates[known.owner].address)
            for address, known in self._followers.items()
            if known.owner in (config := self.configs[address]).candidates
        }
        return LeaseState({address: epoch for address, epoch in found.items() if epoch}, owners)

    def serve(self, configs: Mapping[str, AddressConfig]) -> None:
        """Replace the configuration with that of the Gateways."""
        # Before the new configuration: releases go to the voters of the old one.
        gone = self._candidates.keys() - configs.keys()
        for address in sorted(gone):
            # First: at the end of this step its group would serve the address in the kernel again.
            self._activate(address)
            self._execute(self._candidates.pop(address).give_up())
            self._active.pop(address, None)
        self.configs = dict(configs)
        shared: dict[tuple[tuple[PeerIdentity, str], ...], dict[PeerIdentity, str]] = {}
        names = ((each.address, each.names()) for each in configs.values())
        self._names = {address: shared.setdefault(tuple(own.items()), own) for address, own in names}
        self._owners_changed += 1
        self._index_peers(configs.values())
        for address, each in configs.items():
            self._activate(address)
            self._update_candidate(address, each)
            self._update_follower(address, each)
        self._followers = {each: known for each, known in self._followers.items() if each in configs}
        self._owned_epochs = {each: epoch for each, epoch in self._owned_epochs.items() if each in configs}
        self._announcers = {each: self._announcers.get(each) or OwnerAnnouncer() for each in configs}
        voted = {each.address: list(each.candidates) for each in configs.values() if self._node in each.voters}
        self._voter.serve(voted)
        self.settle()

    def _index_peers(self, configs: Iterable[AddressConfig]) -> None:
        """Index the nodes that all addresses know by the same name and identity.

        Only these can use messages about many addresses at once.
        """
        identities: dict[str, set[PeerIdentity]] = {}
        names: dict[PeerIdentity, set[str]] = {}
        for each in configs:
            for name, identity in (*each.candidates.items(), *each.voters.items()):
                identities.setdefault(name, set()).add(identity)
                names.setdefault(identity, set()).add(name)
        alone = ((name, next(iter(own))) for name, own in identities.items() if len(own) == 1)
        self._peers = {name: own for name, own in alone if own.key and len(names[own]) == 1}
        self._peer_names = {identity: name for name, identity in self._peers.items()}

    def receive(self, sender: PeerIdentity, messages: Iterable[Word | Together], *, settle: bool = True) -> None:
        """Handle the messages of another node; those that its identity has no right to send are ignored.

        A caller with several datagrams passes `settle=False` and calls `settle` once, for one kernel transaction.
        """
        now, names, name = self._clock.monotonic(), None, None
        highest = highest_epoch(self._clock.now())
        for message in messages:
            if isinstance(message, Renewal | Renewed | Unlisted):
                self._receive_joint(sender, message, now)
                continue
            config = self.configs.get(message.address)
            if config is None or message.epoch > highest:  # a lie, which would leave no epoch for the next owner
                continue
            if (own := self._names[message.address]) is not names:  # shared by most addresses
                names, name = own, own.get(sender)
            if name is not None:
                self._last_heard[name] = now
            if isinstance(message, Follow):
                if name is not None or sender.address in config.senders:
                    self._on_follow(sender, message, now)
            elif name is not None:
                self._handle(name, message, config)
        if settle:
            self.settle()

    def _receive_joint(self, sender: PeerIdentity, message: Together, now: float) -> None:
        name = self._peer_names.get(sender)
        if name is not None:
            self._last_heard[name] = now
        if isinstance(message, Renewal):
            unknown = Unlisted(message.digest, message.nonce)
            self.outbox.append((sender, self._voter.renewed(name, message, now) if name is not None else unknown))
        elif name is not None:
            self._on_joint_answer(name, message, now)

    def _on_joint_answer(self, voter: str, answer: Renewed | Unlisted, now: float) -> None:
        joint = self._joints.of(voter)
        if not joint.answered(answer):
            return
        self.votes.answered(voter, "", answer.nonce, now)
        if isinstance(answer, Unlisted):
            for address in list(joint.members):
                self._execute(self._candidates[address].unlisted(voter, now))
        else:
            for address in [each for each in self._active if each in joint.members]:  # steady addresses grow as a group
                self._execute(self._candidates[address].renewed())

    def _send_joint_renewals(self, joints: Mapping[str, Joint], now: float) -> None:
        for voter, joint in joints.items():
            renewal = joint.ask(now)
            if voter == self._node:
                self._on_joint_answer(voter, self._voter.renewed(voter, renewal, now), now)
            else:
                self.votes.requested(voter, "", renewal.nonce, now)
                self.outbox.append((self._peers[voter], renewal))

    def _activate(self, address: str) -> None:
        """Check an address by itself from now on, until its promises are renewed in a group again."""
        candidate = self._candidates.get(address)
        if candidate is not None and address not in self._active:
            for group in self._steady.values():
                group.members.pop(address, None)
            self._active[address] = candidate

    def _on_follow(self, sender: PeerIdentity, message: Follow, now: float) -> None:
        self._announcers[message.address].followed(sender, message.epoch, now)
        if (owned := self.owned.get(message.address)) is not None and message.epoch < owned.epoch:
            self._unannounced.add(message.address)

    def tick(self) -> None:
        """Run everything that has become due."""
        now = self._clock.monotonic()
        for address in [each for each, until in self._paused_until.items() if until <= now]:
            del self._paused_until[address]
            if candidate := self._candidates.get(address):
                candidate.allow(self._may_campaign(self.configs[address]))
        self.votes.tick(now)
        self._execute(self._voter.tick(now))
        renew = now - self._renewed_at >= Candidate.RENEWAL
        self._renewed_at = now if renew else self._renewed_at
        joints = self._joints.begin_round((*self._peers, self._node)) if renew else {}
        self._steady = {voters: group for voters, group in self._steady.items() if group.members}
        for voters, group in self._steady.items():
            lapsed = min(self._joints.until(voters), group.told) <= now
            if lapsed or (renew and not joints.keys() >= set(voters)):
                for address in list(group.members):
                    self._activate(address)
        for address, candidate in list(self._active.items()):
            self._execute(candidate.tick(now, renew=renew, together=joints))
            if address in self.owned and self.kernel_until.get(address, now) < now:
                self._execute(candidate.give_up())  # expired in the kernel: another candidate can serve it
            if candidate.steady:
                del self._active[address]
                self._steady.setdefault(candidate.voters, SteadyGroup()).add(
                    address, self.kernel_until.get(address, now)
                )
        self._send_joint_renewals(joints, now)
        if now - self._follow_sent_at >= FOLLOW:
            self._follow_sent_at = now
            for address, known in self._followers.items():
                self._send(self.configs[address].candidates, Follow(address, known.epoch))
        self.settle()

    def probed(self, address: str, foreign_host: str, *, settle: bool = True) -> None:
        """Handle a probe result.

        `foreign_host` is the hardware address of a foreign host that uses the address; empty if none answered. A caller
        with several results passes `settle=False` and calls `settle` once.
        """
        self.foreign_hosts.pop(address, None)
        if foreign_host:
            self.foreign_hosts[address] = foreign_host
        if candidate := self._candidates.get(address):
            self._activate(address)
            self._execute(candidate.probed(bool(foreign_host), self._clock.monotonic()))
        self._moved(address)
        if settle:
            self.settle()

    def hand_over(self, *, force: bool = False) -> None:
        """Give addresses away for good: all, or only those with another candidate that was heard of lately."""
        now = self._clock.monotonic()
        self._leaving = True
        for address, candidate in self._candidates.items():
            self._activate(address)
            # Before it gives up: a candidate that may campaign would ask for the address again.
            candidate.allow(False)
            others = self.configs[address].candidates.keys() - {self._node}
            if force or any(now - self._last_heard.get(each, float("-inf")) < _MAX_SILENCE for each in others):
                self._execute(candidate.give_up())
        self.settle()

    def _update_candidate(self, address: str, config: AddressConfig) -> None:
        """Create, update or remove this node's candidacy."""
        candidate, now = self._candidates.get(address), self._clock.monotonic()
        if candidate is None:
            if self._node not in config.candidates:
                return
            epoch = self._known.epochs.get(address, 0)
            line, voters = list(config.candidates), list(config.voters)
            candidate = Candidate(self._node, address, line, voters, epoch, self._joints)
            self._candidates[address] = self._active[address] = candidate
        candidate.announced(max(config.epoch, self._owned_epochs.get(address, 0)))
        candidate.allow(self._may_campaign(config))
        self._execute(candidate.change(list(config.candidates), list(config.voters), now))
        if not config.can_own:
            self._execute(candidate.give_up())
        if self._node not in config.candidates:
            del self._candidates[address]
            self._active.pop(address, None)

    def _may_campaign(self, config: AddressConfig) -> bool:
        return config.can_own and not self._leaving and config.address not in self._paused_until

    def _update_follower(self, address: str, config: AddressConfig) -> None:
        """Track the owner of an address: on nodes with pods that send from it, and on candidates."""
        if not config.routes_through and self._node not in config.candidates:
            self._followers.pop(address, None)
            return
        known = self._followers.get(address)
        if known is None:
            before = self._known.owners.get(address)
            known = self._followers[address] = Follower(before.epoch, before.name) if before else Follower()
            self._follow_sent_at = float("-inf")  # ask the owner at once
        if config.owner and config.owner != self._node and known.told(config.owner, config.epoch, config.candidates):
            self._owners_changed += 1
            self._route_to(address, config, config.owner)

    def _handle(self, sender: str, message: Word, config: AddressConfig) -> None:
        now = self._clock.monotonic()
        candidate = self._candidates.get(message.address)
        self._record_sign(sender, message, now)
        if isinstance(message, Grant | Refuse):
            self.votes.answered(sender, message.address, message.nonce, now)
        if not isinstance(message, Ask | Announced):
            self._activate(message.address)
        match message:
            case Ask():
                self._execute([self._voter.asked(sender, message, now)])
            case Release():
                if candidate is not None:
                    self._execute(candidate.given_up(sender, now))
                self._execute(self._voter.released(sender, message, now))
            case Announced():
                self._on_announcement(sender, message, config)
            case Grant() if candidate is not None:
                self._execute(candidate.granted(sender, message, now))
            case Refuse() if candidate is not None:
                self._execute(candidate.refused(sender, message, now))
            case Vacant() if candidate is not None:
                self._execute(candidate.vacant(sender, message, now))
            case _:
                pass

    def _record_sign(self, sender: str, message: Word, now: float) -> None:
        """Record the last sign of an owner.

        It renews with the epoch that it announced, or a higher ballot; after a release it renews nothing.
        """
        known, before = self._followers.get(message.address), self._signs.get(message.address)
        if (
            known is None
            or not isinstance(message, Ask | Release)
            or known.owner != sender
            or message.epoch < known.epoch
        ):
            return
        if before is None or not before.released or (before.owner, before.epoch) != (sender, known.epoch):
            self._signs[message.address] = LastSign(sender, known.epoch, now, isinstance(message, Release))

    def _on_announcement(self, sender: str, message: Announced, config: AddressConfig) -> None:
        if sender not in config.candidates:
            return
        if self.foreign_hosts.pop(message.address, None) is not None:
            self._moved(message.address)  # its owner has probed for a foreign host after this node did
        self._record_owned_epoch(message.address, message.epoch)
        if candidate := self._candidates.get(message.address):
            candidate.announced(message.epoch)
        known = self._followers.get(message.address)
        if known is None:
            return
        if known.told(sender, message.epoch, config.candidates):
            self._owners_changed += 1
            self._route_to(message.address, config, sender)
        self._send([sender], Follow(message.address, known.epoch))

    def _record_owned_epoch(self, address: str, epoch: int) -> None:
        """Record an epoch with an owner.

        Kept apart from the candidacy, which comes and goes with changes of Gateways.
        """
        self._owned_epochs[address] = max(self._owned_epochs.get(address, 0), epoch)

    def _route_to(self, address: str, config: AddressConfig, owner: str) -> None:
        """Route packets that go out from an address to its owner on another node."""
        # Not for an address of this node: the route would lead its own packets to the former owner.
        if address not in self.owned and address not in self._pending.acquisitions:
            self._pending.routes[address] = config.candidates[owner].address

    def _execute(self, effects: Iterable[Effect]) -> None:
        remaining = iter(effects)
        for effect in remaining:
            if isinstance(effect, Drop):
                self._give_up(effect.address)
                # The remaining effects are releases. They wait until the kernel has dropped the address.
                self._pending.drop(effect.address, remaining)
            else:
                self._execute_one(effect)

    def _pause(self, address: str, fault: Exception) -> None:
        """Campaign for an address that the kernel rejected only later: this node may be the first to ask each time."""
        self._paused_until[address] = self._clock.monotonic() + _PAUSE
        if candidate := self._candidates.get(address):
            candidate.allow(False)
        _log.warning("kernel rejected a lease update", address=address, why=str(fault.__cause__ or fault))

    def _execute_one(self, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                if to == self._node:
                    # Queued, not handled at once: the answer would change the candidate in the middle of its own step.
                    self._local_messages.append((to, message))
                else:
                    if isinstance(message, Ask):
                        self.votes.requested(to, message.address, message.nonce, self._clock.monotonic())
                    self._send([to], message)
            case Own():
                self._pending.acquire(effect)
            case Renew(address, until):
                self._renewals[address] = until
            case AddressProbe(address):
                _log.info("probing for foreign use of an address", address=address)
                self._probe(address)
            case Drop():
                raise AssertionError("a drop holds the effects behind it back")

    def _acquire_pending(self) -> None:
        pending = self._pending.take_acquisitions()

        def serve(addresses: Sequence[str]) -> None:
            self._update_kernel({each: pending[each].until for each in addresses})

        # The kernel first: peers send packets here as soon as an address is announced.
        failures = call_together(serve, list(pending))
        for address, own in pending.items():
            if address not in failures:
                self._acquired(address, own.epoch)
        for address, fault in failures.items():
            if candidate := self._candidates.get(address):
                self._execute(candidate.give_up())  # so that the next candidate can try
            self._pause(address, fault)

    def _acquired(self, address: str, epoch: int) -> None:
        now = self._clock.monotonic()
        self.foreign_hosts.pop(address, None)
        own = self.owned[address] = self._ownership(address, epoch, now)
        self._record_owned_epoch(address, epoch)
        self._announcers[address].restart()
        self._unannounced.add(address)
        if not self.configs[address].quiet:
            self._announcements += [(now + pause, address) for pause in _ANNOUNCEMENT_DELAYS]
        if known := self._followers.get(address):
            known.epoch, known.owner = max(known.epoch, epoch), self._node
            self._owners_changed += 1
        _log.info("address acquired", address=address, epoch=epoch, cause=own.cause, former=own.former, gap=own.gap)
        self._moved(address)

    def _ownership(self, address: str, epoch: int, now: float) -> Ownership:
        known, sign = self._followers.get(address), self._signs.pop(address, None)
        former = known.owner if known is not None else ""
        heard = sign if sign is not None and sign.owner == former else None
        cause: Cause = "First"
        if former:
            gone: Cause = "HandedOver" if heard is not None and heard.released else "Silent"
            cause = "Regained" if former == self._node else gone
        renewed = self._voter.last_promised(address) if heard is not None and not heard.released else float("-inf")
        gap = now - max(heard.at, renewed) if heard is not None else None
        self.takeovers[cause] += 1
        if gap is not None:
            self.gaps = [self.gaps[0] + gap, self.gaps[1] + 1]
        return Ownership(epoch, self._clock.now(), former, cause, gap)

    def _give_up(self, address: str) -> None:
        """Own an address no more; the kernel is told at the end of the step."""
        self._renewals.pop(address, None)
        self.kernel_until.pop(address, None)
        self._announcements = [each for each in self._announcements if each[1] != address]
        if self.owned.pop(address, None) is not None:
            _log.info("address given up", address=address)
            self._moved(address)

    def _drop_pending(self) -> None:
        """Drop addresses from the kernel, then release their promises."""
        pending = self._pending.take_drops()
        failures = call_together(self._kernel.drop, list(pending))
        for address, waiting in pending.items():
            if address in failures:
                # Nothing is released: the promises expire after the kernel's own lease.
                self._pause(address, failures[address])
                continue
            # The next owner may have announced itself before this node noticed its own loss (a suspended agent or
            # host). The follower knows that owner already, so no later announcement would count as a change.
            known, config = self._followers.get(address), self.configs.get(address)
            if known is not None and config is not None and known.owner in config.candidates.keys() - {self._node}:
                self._route_to(address, config, known.owner)
            self._execute(waiting)

    def _route_pending(self) -> None:
        routes = self._pending.take_routes()
        failures = call_together(lambda some: self._kernel.follow({each: routes[each] for each in some}), list(routes))
        for address, fault in failures.items():
            _log.warning("route to another gateway cannot be set, will retry", address=address, why=repr(fault))
            if address in self._followers:
                self._followers[address] = Follower()  # so that its next announcement counts as a change
                self._owners_changed += 1

    def settle(self) -> None:
        """Deliver messages to itself, update the kernel once, and send announcements."""
        while self._local_messages or self._pending.drops or self._pending.acquisitions:
            while self._local_messages:
                _, message = self._local_messages.popleft()
                if message.address in self.configs:
                    self._handle(self._node, message, self.configs[message.address])
            # Drops first: a drop that was decided before an acquisition of the same address must not undo it.
            self._drop_pending()
            self._acquire_pending()
        self._route_pending()
        renewals, self._renewals = self._renewals, {}
        worth = {
            each: until
            for each, until in renewals.items()
            if each in self.owned and abs(until - self.kernel_until.get(each, 0.0)) >= _MIN_GROWTH
        }
        expiries = {voters: self._joints.until(voters) for voters, group in self._steady.items() if group.members}
        soon = self._clock.monotonic() + _WRITE_AHEAD
        grown = {
            voters: until
            for voters, until in expiries.items()
            if self._steady[voters].told < min(soon, until - _MIN_GROWTH)
        }
        for voters, until in grown.items():
            worth |= dict.fromkeys(self._steady[voters].members, until)
        try:
            self._update_kernel(worth)
        except KernelCallFailed as fault:
            _log.warning("lease renewal in the kernel failed", addresses=len(worth), why=str(fault.__cause__))
        else:
            # Only after success: the next step repeats a failed update.
            for voters, until in grown.items():
                self._steady[voters].told = until
        self._announce()

    def _update_kernel(self, expiries: Mapping[str, float]) -> None:
        """Serve addresses until the given times. Raises KernelCallFailed."""
        if not expiries:
            return
        own_until(self._kernel, self._clock, expiries)
        # Only after success: `tick` gives up an address once its time in the kernel is over.
        self.kernel_until |= expiries

    def _announce(self) -> None:
        now = self._clock.monotonic()
        due = sorted({address for at, address in self._announcements if at <= now}) if self._announcements else []
        if due:
            # Removed before the call: a failed announcement is not repeated, since later ones of its series follow.
            self._announcements = [each for each in self._announcements if each[0] > now]
            try:
                self._kernel.announce(due)
            except Exception as error:
                _log.warning("announcement on the segment failed", why=repr(error))
        for address in list(self._unannounced):
            owned = self.owned.get(address)
            if owned is not None:
                for follower in self._announcers[address].due(owned.epoch, now):
                    self.outbox.append((follower, Announced(address, owned.epoch)))
            if owned is None or self._announcers[address].is_known(owned.epoch):
                self._unannounced.discard(address)

    def _send(self, names: Iterable[str], message: Word) -> None:
        config = self.configs.get(message.address)
        for name in names:
            identity = config.identity(name) if config is not None and name != self._node else None
            if identity is not None:
                self.outbox.append((identity, message))
