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

from tarmac.agent.egress.compiling import Compiled, compile_state, service_of, used_gateways
from tarmac.agent.egress.leases.addressconfig import Terms, terms_of
from tarmac.agent.egress.leases.checkpoint import LeaseFile
from tarmac.agent.egress.leases.thread import LeaseThread
from tarmac.agent.egress.objects import Objects, ObjectSource, Remembered
from tarmac.agent.egress.statuswriter import Acknowledgements, Applied
from tarmac.api.egress.forwarding import RuleError
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.datapath.egress import EgressDatapath, EgressState

GATHER: Final = 0.02
MEND_EVERY: Final = 1.0
_LOOKS: Final = 5  # link checks per check of the rules
CHECK_EVERY: Final = 60.0
_AGAIN: Final = 2.0

_log = log("external")


@dataclass(slots=True)
class Figures:
    """Counters for metrics."""

    applies: int = 0
    seconds: float = 0.0
    failures: int = 0
    drift: int = 0


class ExternalKeeper:
    """Reconciler of one node. `addresses` are the node's own; the first is the end of its tunnels."""

    def __init__(
        self,
        node: str,
        datapath: EgressDatapath,
        leases: LeaseThread,
        lease_file: LeaseFile,
        source: Callable[[Callable[[], None]], ObjectSource],
        telling: Acknowledgements,
        addresses: Callable[[], Sequence[str]],
        clock: Clock,
        *,
        encrypt: bool,
    ) -> None:
        self._node, self._datapath, self._leases, self._telling = node, datapath, leases, telling
        self._lease_file, self._addresses, self._clock = lease_file, addresses, clock
        self._encrypt = encrypt
        self._wake = asyncio.Event()
        self._source = source(self._wake.set)
        self._applied: EgressState | None = None  # None while the state of the kernel is unknown
        self._failures: Mapping[str, Exception] = {}
        self._carriable: Set[str] = frozenset()
        self._named = False  # a Gateway names this node as a candidate, with or without working links
        self.gateway_names: Mapping[str, str] = {}  # by address
        self._interfaces: Mapping[str, Sequence[str]] = {}  # as of the last pass
        self._check_at = 0.0
        self._address = ""  # the node's address as of the last pass
        self._idle = False  # the last pass found nothing to do
        self._handed_over = False
        self.figures = Figures()

    @property
    def stands(self) -> bool:
        """True if this node may own addresses."""
        return bool(self._carriable)

    def wake(self) -> None:
        """Start a pass: an input of the rules has changed, such as the Networks of this node."""
        if self._applied is not None and not self._applied.empty:
            self._wake.set()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        owners = self._lease_file.kept.owners
        # Before any rule is written: an adopted egress namespace keeps routing packets to their gateways.
        self._datapath.follow({address: owner.node_address for address, owner in owners.items()})
        before = self._source.remembered()
        while not self._source.synced:
            if not before.empty:
                await self._turn(before, None)
            await self._wait(self._source.wait(), MEND_EVERY)
        while True:
            self._wake.clear()  # before the objects are read, so that a later change starts another pass
            await self._turn(*self._source.current())
            while not await self._changed():
                await self._mend()

    async def _changed(self) -> bool:
        """Wait until the next check of the rules. Return True if a full pass is due instead."""
        unsettled = self._applied is None or bool(self._failures)
        busy = not self._idle and (unsettled or self._named or not self._without_rules)
        for _ in range(_LOOKS if busy else 1):
            if await self._wait(self._wake.wait(), MEND_EVERY / _LOOKS if busy else None):
                await self._clock.sleep(GATHER)
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
        self._handed_over = True
        await self._leases.hand_over()
        await self._leases.close()

    async def _turn(self, objects: Objects, kept: Remembered | None) -> None:
        """Run one pass. `kept` is the checkpoint to write; it is None while the server is unreachable."""
        address = self._address = self._own_address()
        if objects.empty and self._idle:
            return
        if not address and not objects.empty:
            _log.warning("external services wait for the node's address")
            return
        if kept is not None:
            # Before acknowledging: the next agent process must know at least the state that peers rely on.
            await self._source.keep(kept)
        compiled = await self._compiled(objects, address)
        await self._serve(address, self._terms(objects, compiled.carriable & self._carriable))
        await self._apply(compiled.state)
        self._carriable = compiled.carriable - self._failures.keys()
        await self._serve(address, self._terms(objects, self._carriable))
        self._idle = objects.empty and kept is not None and not self._failures
        if kept is not None:
            self._acknowledge(objects, compiled)

    async def _serve(self, address: str, terms: Mapping[str, Terms]) -> None:
        if not self._handed_over:  # a pass may be under way or follow: it must not campaign for the addresses again
            await self._leases.serve(address, terms)

    async def _compiled(self, objects: Objects, address: str) -> Compiled:
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
            await self._mend()
            return
        try:
            failures = await self._datapath.apply(state)
        except Exception as error:  # the whole node failed; retried later
            failures = {each.name: error for each in state.forwardings} | {
                each.address: error for each in state.sources
            }
        self._note(failures, now)
        self._applied, self._failures = state, failures
        self._check_at = now + CHECK_EVERY

    async def _mend(self) -> None:
        if self._without_rules:
            return
        if mended := await self._datapath.mend():
            self.figures.drift += len(mended)
            _log.warning("repaired rules that another program changed", where=", ".join(mended))

    @property
    def _without_rules(self) -> bool:
        """True if this node is known to have no rules."""
        return self._applied is not None and self._applied.empty

    def _own_address(self) -> str:
        return next(iter(self._addresses()), "")

    def _note(self, failures: Mapping[str, Exception], began: float) -> None:
        self.figures.applies += 1
        self.figures.seconds += self._clock.monotonic() - began
        self.figures.failures += len(failures)
        if failures and {key: str(error) for key, error in failures.items()} != {
            key: str(error) for key, error in self._failures.items()
        }:
            for key, error in failures.items():
                _log.warning("rules cannot be applied", of=key, why=str(error) or repr(error))

    def _terms(self, objects: Objects, carriable: Set[str]) -> dict[str, Terms]:
        used, now = used_gateways(objects.forwarders.values()), self._clock.now()
        return {
            each.spec.gateway_ip: terms_of(
                each, node=self._node, carriable=each.spec.gateway_ip in carriable, follows=name in used, now=now
            )
            for name, each in objects.gateways.items()
            if each.spec.gateway_ip
        }

    def _acknowledge(self, objects: Objects, compiled: Compiled) -> None:
        for name, forwarder in objects.forwarders.items():
            errors = [*compiled.problems.get(name, ()), *self._failed(service_of(forwarder))]
            said = forwarder.status.conditions if forwarder.status is not None else []
            self._telling.forwarder(name, Applied(forwarder.metadata.generation, tuple(errors)), said)
        for name, gateway in objects.gateways.items():
            if self._node in gateway.spec.concerned:
                errors = [*compiled.problems.get(name, ()), *self._failed(gateway.spec.gateway_ip)]
                stands = any(each.name == self._node for each in gateway.spec.candidates)
                applied = Applied(gateway.metadata.generation, tuple(errors), stands)
                self._telling.gateway(name, gateway.spec.gateway_ip, applied)
        self._telling.keep_only(objects.forwarders.keys(), objects.gateways.keys())

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
