"""Reconciles this node's part in external services with its Forwarders and Gateways, and reports the result.

Each pass has a fixed order: 1. withdraw from leases that this node can no longer serve, 2. apply rules, 3. campaign for
leases that it can serve now, 4. acknowledge. Withdrawing after step 2 would leave an owned address without rules;
acknowledging before step 2 would let the controller change voters while the old set is still in force.

A pass runs when an object, an external link or the node's address has changed, after a failure, and every minute. In
between, the rules are checked each second, at the cost of one kernel query, and a candidate checks its links five times
as often: a node that loses its external link withdraws, and its addresses move to other candidates. A node without any
part in external services queries nothing and has no rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from tarmac.agent.egress.compiling import CompiledEgress, compile_state, service_of, used_gateways
from tarmac.agent.egress.leases.addressconfig import AddressConfig, address_config
from tarmac.agent.egress.leases.checkpoint import LeaseCheckpoint
from tarmac.agent.egress.leases.thread import LeaseThread
from tarmac.agent.egress.relayinformers import EgressCheckpoint, EgressObjects, EgressObjectSource
from tarmac.agent.egress.statuswriter import AppliedGeneration, EgressStatusWriter
from tarmac.api.egress.forwarding import RuleError
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.datapath.egress import EgressDatapath, EgressState

DEBOUNCE: Final = 0.02
REPAIR_INTERVAL: Final = 1.0
_LINK_CHECKS: Final = 5  # link checks per check of the rules
CHECK_INTERVAL: Final = 60.0
_RETRY_INTERVAL: Final = 2.0

_log = log("external")


@dataclass(slots=True)
class EgressApplyMetrics:
    """Counters for metrics."""

    applies: int = 0
    seconds: float = 0.0
    failures: int = 0
    drift: int = 0


class EgressReconciler:
    """Reconciler of one node. `addresses` are the node's own; the first is the end of its tunnels."""

    def __init__(
        self,
        node: str,
        datapath: EgressDatapath,
        leases: LeaseThread,
        lease_file: LeaseCheckpoint,
        source: Callable[[Callable[[], None]], EgressObjectSource],
        status_writer: EgressStatusWriter,
        addresses: Callable[[], Sequence[str]],
        clock: Clock,
        *,
        encrypt: bool,
    ) -> None:
        self._node, self._datapath, self._leases, self._status_writer = node, datapath, leases, status_writer
        self._lease_file, self._addresses, self._clock = lease_file, addresses, clock
        self._encrypt = encrypt
        self._wake = asyncio.Event()
        self._source = source(self._wake.set)
        self._applied: EgressState | None = None  # None while the state of the kernel is unknown
        self._failures: Mapping[str, Exception] = {}
        self._ownable: Set[str] = frozenset()
        self._named = False  # a Gateway names this node as a candidate, with or without working links
        self.gateway_names: Mapping[str, str] = {}  # by address
        self._interfaces: Mapping[str, Sequence[str]] = {}  # as of the last pass
        self._check_at = 0.0
        self._address = ""  # the node's address as of the last pass
        self._idle = False  # the last pass found nothing to do
        self._handed_over = False
        self.metrics = EgressApplyMetrics()

    @property
    def is_candidate(self) -> bool:
        """True if this node may own addresses."""
        return bool(self._ownable)

    def wake(self) -> None:
        """Start a pass: an input of the rules has changed, such as the Networks of this node."""
        if self._applied is not None and not self._applied.empty:
            self._wake.set()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        owners = self._lease_file.saved.owners
        # Before any rule is written: an adopted egress namespace keeps routing packets to their gateways.
        self._datapath.follow({address: owner.node_address for address, owner in owners.items()})
        before = self._source.load_checkpoint()
        while not self._source.synced:
            # Without a checkpoint nothing is applied: rules of an earlier agent stay in force until the server answers.
            if not before.empty:
                await self._reconcile(before, None)
            await self._wait(self._source.wait(), REPAIR_INTERVAL)
        while True:
            self._wake.clear()  # before the objects are read, so that a later change starts another pass
            await self._reconcile(*self._source.current())
            while not await self._changed():
                await self._repair()

    async def _changed(self) -> bool:
        """Wait until the next check of the rules. Return True if a full pass is due instead."""
        unsettled = self._applied is None or bool(self._failures)
        busy = not self._idle and (unsettled or self._named or not self._without_rules)
        for _ in range(_LINK_CHECKS if busy else 1):
            if await self._wait(self._wake.wait(), REPAIR_INTERVAL / _LINK_CHECKS if busy else None):
                # After the wake-up: one Gateway changes many objects, which one pass applies together.
                await self._clock.sleep(DEBOUNCE)
                return True
            # Lost or restored: a node without its external link has no rules that the periodic check would cover.
            if self._named and await self._datapath.interfaces(connected=True) != self._interfaces:
                return True
        return unsettled or self._own_address() != self._address or self._clock.monotonic() >= self._check_at

    async def stop(self) -> None:
        """Hand addresses over to other candidates.

        An address without a successor stays in the kernel until its lease ends. A host that shuts down goes on with its
        rules until its pods have ended; it takes no part in leases any more.
        """
        # Before the await: a pass that runs during it would campaign for the addresses again.
        self._handed_over = True
        await self._leases.hand_over()
        # Only now: the thread has sent its releases before `hand_over` returns, and would send none after this.
        await self._leases.close()

    async def _reconcile(self, objects: EgressObjects, kept: EgressCheckpoint | None) -> None:
        """Run one pass. `saved` is the checkpoint to write; it is None while the server is unreachable."""
        address = self._address = self._own_address()
        if objects.empty and self._idle:
            return
        if not address and not objects.empty:
            _log.warning("external services wait for the node's address")
            return
        if kept is not None:
            # Before acknowledging: the next agent process must know at least the state that peers rely on.
            await self._source.save(kept)
        compiled = await self._compiled(objects, address)
        # First without addresses whose rules go: they must be handed over before their packets are dropped.
        await self._serve(address, self._configs(objects, compiled.ownable & self._ownable))
        await self._apply(compiled.state)
        # Only now with new ones: an owner announces an address, and its rules must be in force by then.
        self._ownable = compiled.ownable - self._failures.keys()
        await self._serve(address, self._configs(objects, self._ownable))
        self._idle = objects.empty and kept is not None and not self._failures
        if kept is not None:
            # After the rules: controllers move voters and peers once this node has acknowledged.
            self._acknowledge(objects, compiled)

    async def _serve(self, address: str, configs: Mapping[str, AddressConfig]) -> None:
        if not self._handed_over:  # a pass may be under way or follow: it must not campaign for the addresses again
            await self._leases.serve(address, configs)

    async def _compiled(self, objects: EgressObjects, address: str) -> CompiledEgress:
        candidates = (each for known in objects.gateways.values() for each in known.spec.candidates)
        self.gateway_names = {each.address: each.name for each in candidates}
        self._named = any(
            each.name == self._node for known in objects.gateways.values() for each in known.spec.candidates
        )
        self._interfaces = await self._datapath.interfaces(connected=True) if self._named else {}
        forwarders, gateways = objects.forwarders.values(), objects.gateways.values()
        return compile_state(
            self._node,
            address,
            forwarders,
            gateways,
            objects.places,
            self._interfaces,
            objects.partner if self._named else "",
            encrypt=self._encrypt,
        )

    async def _apply(self, state: EgressState) -> None:
        """Apply the rules if they differ from the last applied ones; otherwise only repair external changes."""
        now = self._clock.monotonic()
        if state == self._applied and not self._failures and now < self._check_at:
            await self._repair()
            return
        try:
            failures = await self._datapath.apply(state)
        except Exception as error:  # the whole node failed; retried later
            failures = {each.name: error for each in state.forwardings} | {
                each.address: error for each in state.sources
            }
        self._record(failures, now)
        # Also after a failure: the next pass compares with what was attempted, and retries because of `_failures`.
        self._applied, self._failures = state, failures
        self._check_at = now + CHECK_INTERVAL

    async def _repair(self) -> None:
        if self._without_rules:
            return
        if mended := await self._datapath.mend():
            self.metrics.drift += len(mended)
            _log.warning("repaired rules that another program changed", where=", ".join(mended))

    @property
    def _without_rules(self) -> bool:
        """True if this node is known to have no rules."""
        return self._applied is not None and self._applied.empty

    def _own_address(self) -> str:
        return next(iter(self._addresses()), "")

    def _record(self, failures: Mapping[str, Exception], began: float) -> None:
        self.metrics.applies += 1
        self.metrics.seconds += self._clock.monotonic() - began
        self.metrics.failures += len(failures)
        if failures and {key: str(error) for key, error in failures.items()} != {
            key: str(error) for key, error in self._failures.items()
        }:
            for key, error in failures.items():
                _log.warning("rules cannot be applied", of=key, why=str(error) or repr(error))

    def _configs(self, objects: EgressObjects, can_own: Set[str]) -> dict[str, AddressConfig]:
        used, now = used_gateways(objects.forwarders.values()), self._clock.now()
        return {
            each.spec.gateway_ip: address_config(
                each, node=self._node, can_own=each.spec.gateway_ip in can_own, routes_through=name in used, now=now
            )
            for name, each in objects.gateways.items()
            if each.spec.gateway_ip
        }

    def _acknowledge(self, objects: EgressObjects, compiled: CompiledEgress) -> None:
        for name, forwarder in objects.forwarders.items():
            errors = [*compiled.problems.get(name, ()), *self._failed(service_of(forwarder))]
            conditions = forwarder.status.conditions if forwarder.status is not None else []
            self._status_writer.forwarder(
                name, AppliedGeneration(forwarder.metadata.generation, tuple(errors)), conditions
            )
        for name, gateway in objects.gateways.items():
            if self._node in gateway.spec.concerned:
                errors = [*compiled.problems.get(name, ()), *self._failed(gateway.spec.gateway_ip)]
                is_candidate = any(each.name == self._node for each in gateway.spec.candidates)
                applied = AppliedGeneration(gateway.metadata.generation, tuple(errors), is_candidate)
                self._status_writer.gateway(name, gateway.spec.gateway_ip, applied)
        self._status_writer.keep_only(objects.forwarders.keys(), objects.gateways.keys())

    def _failed(self, key: str) -> list[RuleError]:
        error = self._failures.get(key)
        return [RuleError(key, str(error) or repr(error))] if error is not None else []

    async def _wait(self, event: Awaitable[object], seconds: float | None) -> bool:
        """Return True if the event happened before the timeout."""
        try:
            async with asyncio.timeout(seconds):
                await event
        except TimeoutError:
            return False
        return True
