"""Reconciles this node's part in public addresses with its objects, and reports the result.

Each pass has a fixed order: 1. withdraw routes, and from leases, of addresses that this node can no longer serve,
2. apply rules, 3. campaign for leases and announce routes that it can serve now, 4. report. Withdrawing after step 2
would leave an owned address without rules; reporting before it would show an address that leads nowhere. A new address
takes two passes: with the rules of the first the node connects to it, and the second announces it.

A pass runs when an object, a Network of this node or its address has changed, after a failure, and every minute. In
between, the rules are checked each second, at the cost of one kernel query. Without pools and addresses a node queries
nothing and has no rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tarmac.agent.egress.compiling import Interfaces
from tarmac.agent.egress.leases.thread import LeaseThread
from tarmac.agent.ingress.announcer import RouteAnnouncer
from tarmac.agent.ingress.compiling import CompiledIngress, IngressObjects, LocalNode, compile_ingress
from tarmac.agent.ingress.healthchecks import HealthCheckServer
from tarmac.agent.ingress.ingressinformers import IngressObjectSource
from tarmac.agent.ingress.leases import lease_configs
from tarmac.agent.ingress.passwords import SessionPasswords
from tarmac.agent.ingress.selftests import SelfTests
from tarmac.agent.ingress.sessions import CompiledSpeaker, compile_speaker
from tarmac.agent.ingress.statuswriter import AppliedAddress, IngressStatusWriter
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.datapath.ingress import IngressDatapath, IngressState
from tarmac.decide import reasons
from tarmac.decide.ingress.selecting import has_session
from tarmac.decide.ingress.targets import GatewayState

DEBOUNCE: Final = 0.02
REPAIR_INTERVAL: Final = 1.0
CHECK_INTERVAL: Final = 60.0

Networks = Mapping[str, Sequence[str]]
"""The ranges of each Network that is in force on this node."""

_log = log("ingress")


class IngressReconciler:
    """Reconciler of one node. `addresses` are the node's own; the first is the end of its tunnels."""

    def __init__(
        self,
        node: str,
        datapath: IngressDatapath,
        leases: LeaseThread,
        source: Callable[[Callable[[], None]], IngressObjectSource],
        status_writer: IngressStatusWriter,
        announcer: RouteAnnouncer,
        passwords: SessionPasswords,
        health: HealthCheckServer,
        addresses: Callable[[], Sequence[str]],
        networks: Callable[[], Networks],
        interfaces: Callable[[], Awaitable[Interfaces]],
        clock: Clock,
    ) -> None:
        self._node, self._datapath, self._leases = node, datapath, leases
        self._status_writer, self._addresses, self._networks = status_writer, addresses, networks
        self._announcer, self._passwords, self._health = announcer, passwords, health
        self._interfaces_of_node, self._clock = interfaces, clock
        self._wake = asyncio.Event()
        self._tests = SelfTests(datapath, clock, self._wake.set)
        self._source = source(self._wake.set)
        self._trusted = frozenset[str]()
        self._applied: IngressState | None = None  # None while the state of the kernel is unknown
        self._failures: Mapping[str, Exception] = {}
        self._interfaces: Interfaces = {}
        self._candidate = self._has_peers = False
        self._check_at = 0.0
        self._address = ""
        self._handed_over = False

    @property
    def takes_part(self) -> bool:
        """True if the node has rules of public addresses, or sessions with routers."""
        return self._has_peers or (self._applied is not None and not self._applied.empty)

    def wake(self) -> None:
        """Start a pass: an input of the rules has changed, such as the Networks of this node."""
        self._wake.set()

    @property
    def applied(self) -> IngressState | None:
        """The rules that are in force; None while that is unknown."""
        return self._applied

    @property
    def tests(self) -> SelfTests:
        """The tests of this node's own connections."""
        return self._tests

    async def run(self) -> None:
        """Reconcile until cancelled."""
        # After a restart without a server the node answers for its addresses with the rules of the checkpoint.
        before = self._source.load_checkpoint()
        while not self._source.synced:
            # Without a checkpoint nothing is applied: rules of an earlier agent stay in force until the server answers.
            if not before.empty:
                await self._reconcile(before, save=False)
            await self._wait(self._source.wait(), REPAIR_INTERVAL)
        while True:
            self._wake.clear()  # before the objects are read, so that a later change starts another pass
            await self._reconcile(self._source.current(), save=True)
            while not await self._changed():
                await self._repair()

    async def stop(self) -> None:
        """Hand addresses over to other candidates. Rules stay: pods answer until they have ended."""
        self._handed_over = True
        # The flag is set before this await: a pass that runs meanwhile would campaign for the addresses again.
        async with asyncio.TaskGroup() as group:
            group.create_task(self._announcer.withdraw())
            group.create_task(self._leases.hand_over())
        await self._health.stop()
        await self._leases.close()

    async def _changed(self) -> bool:
        """Wait until the next check of the rules. Return True if a full pass is due instead."""
        idle = self._applied is not None and self._applied.empty and not self._failures and not self._has_peers
        if await self._wait(self._wake.wait(), None if idle else REPAIR_INTERVAL):
            await self._clock.sleep(DEBOUNCE)
            return True
        if (self._candidate or self._has_peers) and await self._interfaces_of_node() != self._interfaces:
            return True  # a link outside was lost or restored
        if self._passwords.due:
            return True
        return bool(self._failures) or self._own_address() != self._address or self._clock.monotonic() >= self._check_at

    async def _reconcile(self, objects: IngressObjects, *, save: bool) -> None:
        """Run one pass. Without `save` the objects come from the checkpoint, and nothing is reported."""
        address = self._address = self._own_address()
        if not address and not objects.empty:
            _log.warning("public addresses wait for the node's address")
            return
        objects = await self._with_passwords(objects)
        if save:
            # Before the rules: after a kill the next agent must know every address whose rules may be in the kernel.
            await self._source.save(objects)
        compiled, speaker = await self._compile(objects, address)
        known = {each.address for each in compiled.state.addresses}
        self._tests.ensure({} if self._handed_over else compiled.tests, known)
        if self._applied is None:
            # An earlier agent may have announced them: they stay while they are tested for the first time.
            self._trusted = frozenset(compiled.tests)
        before = self._ownable_before()
        # First without addresses that lose their rules: they must be handed over before packets for them are dropped.
        await self._announcer.keep_only(compiled.announced - self._failures.keys())
        await self._serve(address, objects, compiled.ownable & before)
        await self._apply(compiled.state)
        # Only now with the new ones: an owner announces the address, and must be able to forward its packets.
        can_own = compiled.ownable - self._failures.keys()
        await self._serve(address, objects, can_own)
        await self._health.serve(compiled.health)
        if not self._handed_over:
            await self._announcer.ensure(speaker, compiled.routed, compiled.announced - self._failures.keys())
        if save:
            self._report(objects, compiled)

    async def _with_passwords(self, objects: IngressObjects) -> IngressObjects:
        mine = [each.spec for each in objects.peers.values() if has_session(each.spec, objects.node.labels)]
        self._has_peers = bool(mine)
        names = {each.password_secret for each in mine} - {""}
        return replace(objects, passwords=await self._passwords.read(names, objects.passwords))

    async def _compile(self, objects: IngressObjects, address: str) -> tuple[CompiledIngress, CompiledSpeaker]:
        self._candidate = any(own.name == self._node for each in objects.addresses for own in each.spec.candidates)
        self._interfaces = await self._interfaces_of_node() if self._candidate or self._has_peers else {}
        here = LocalNode(self._node, address, _location(objects, self._node), self._interfaces, self._networks())
        # In a thread: thousands of endpoints take longer than the event loop may be held.
        tested = self._gateway_states(here)
        return await asyncio.to_thread(lambda: (compile_ingress(here, objects, tested), compile_speaker(here, objects)))

    def _gateway_states(self, here: LocalNode) -> Callable[[str], GatewayState]:
        """Return this gateway with the results of its tests, by address."""
        trusted, starting = self._trusted, self._applied is None
        states = self._tests.states()
        passing = self._source.passing

        def state(address: str) -> GatewayState:
            found = states.get(address, "Pending")
            alone = not passing.get(address, frozenset()) - {here.name}
            pending = found == "Pending" and not starting and address not in trusted
            return GatewayState(here.name, here.location, programmed=not pending, passed=found != "Failed", alone=alone)

        return state

    def _ownable_before(self) -> frozenset[str]:
        """Return the addresses whose rules are in force here."""
        known = self._applied.addresses if self._applied is not None else ()
        return frozenset(each.address for each in known if each.outside is not None) - self._failures.keys()

    async def _serve(self, address: str, objects: IngressObjects, can_own: frozenset[str]) -> None:
        if not self._handed_over:  # a pass may be under way or follow: it must not campaign for the addresses again
            await self._leases.serve(address, lease_configs(self._node, objects.addresses, can_own))

    async def _apply(self, state: IngressState) -> None:
        """Apply the rules if they differ from the last applied ones; otherwise only repair external changes."""
        now = self._clock.monotonic()
        if state == self._applied and not self._failures and now < self._check_at:
            await self._repair()
            return
        try:
            failures = await self._datapath.apply(state)
        except Exception as error:  # the whole node failed; retried later
            failures = {each.address: error for each in state.addresses} or {"": error}
        if {key: str(error) for key, error in failures.items()} != {
            key: str(error) for key, error in self._failures.items()
        }:
            for key, error in failures.items():
                _log.warning("rules cannot be applied", of=key, why=str(error) or repr(error))
        # Also after a failure: the next pass compares with this attempt, and repeats it because of `_failures`.
        self._applied, self._failures = state, failures
        self._check_at = now + CHECK_INTERVAL

    async def _repair(self) -> None:
        if self._applied is not None and self._applied.empty:
            return
        if mended := await self._datapath.mend():
            _log.warning("repaired rules that another program changed", where=", ".join(mended))

    def _report(self, objects: IngressObjects, compiled: CompiledIngress) -> None:
        known = {each.spec.address: each for each in objects.addresses}
        location, doubtful = _location(objects, self._node), self._tests.doubtful()
        applied: dict[str, AppliedAddress] = {}
        for each in compiled.state.addresses:
            if each.address not in known:
                continue  # of node ports, which no object is about
            concerned = each.outside is not None or each.routed or any(port.backends for port in each.ports)
            asked = self._is_asked(known[each.address])
            reason = compiled.reasons.get(each.address, "")
            if each.address in self._failures:
                reason = reasons.PROGRAMMING_FAILED
            elif not (concerned or reason or asked):
                continue  # no gateway, and no node with endpoints
            own = known[each.address].metadata
            via = each.outside.interface if each.outside is not None else ""
            generation = own.generation if asked else 0
            applied[each.address] = AppliedAddress(
                own.name, location, via, reason, generation, each.routed, each.address in doubtful
            )
        self._status_writer.report(applied)

    def _is_asked(self, address: PublicAddress) -> bool:
        """Return True if voters change only once this node has acknowledged the last change."""
        return any(own.name == self._node for own in (*address.spec.candidates, *address.spec.leaving))

    def _own_address(self) -> str:
        return next(iter(self._addresses()), "")

    async def _wait(self, event: Awaitable[object], seconds: float | None) -> bool:
        """Return True if the event happened before the timeout."""
        try:
            async with asyncio.timeout(seconds):
                await event
        except TimeoutError:
            return False
        return True


def _location(objects: IngressObjects, node: str) -> str:
    """Return the Location of the node, as its own Node object states it."""
    own = objects.endpoints.get(node)
    return own.location if own is not None else ""
