"""Keeps this node's part in external services as Forwarders and Gateways say, and says what came of it.

An address is given up before the rules go that it was carried by, and stood for after they are there; and what voters
decide on is in force before it is acknowledged, since the next change of voters waits for that. So each turn is: leases
without what is new, rules, leases, acknowledgement.

They are worked out anew when an object, a link outside or the node's address has changed, where something failed, and
every minute. In between they are looked after each second, which costs a question to the kernel, and a node that may
carry addresses looks at its links more often still: one whose link outside is lost gives its addresses to others. A
node without any part in external services asks nothing and has nothing of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from tarmac.agent.external.compiling import Compiled, compile_state, service_of, used_gateways
from tarmac.agent.external.leases.remembering import LeaseFile
from tarmac.agent.external.leases.terms import Terms, terms_of
from tarmac.agent.external.leases.thread import LeaseThread
from tarmac.agent.external.objects import Objects, ObjectSource, Remembered
from tarmac.agent.external.telling import Acknowledgements, Applied
from tarmac.api.submariner.relays import RuleError
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.datapath.external import ExternalDatapath, ExternalState

GATHER: Final = 0.02
MEND_EVERY: Final = 1.0
_LOOKS: Final = 5  # at links, while rules are looked after once
CHECK_EVERY: Final = 60.0
_AGAIN: Final = 2.0

_log = log("external")


@dataclass(slots=True)
class Figures:
    """What has happened so far, for metrics."""

    applies: int = 0
    seconds: float = 0.0
    failures: int = 0
    drift: int = 0


class ExternalKeeper:
    """The part of one node. `addresses` are the node's own, the first of which is where its tunnels end."""

    def __init__(
        self,
        node: str,
        datapath: ExternalDatapath,
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
        self._applied: ExternalState | None = None  # None while it is not known what there is
        self._failures: Mapping[str, Exception] = {}
        self._carriable: Set[str] = frozenset()
        self._named = False  # whether a Gateway names this node, whatever its links are like
        self.gateway_names: Mapping[str, str] = {}  # by address
        self._interfaces: Mapping[str, Sequence[str]] = {}  # as they were when rules were last worked out
        self._check_at = 0.0
        self._address = ""  # the node's, when rules were last worked out
        self._idle = False  # whether it is known that there is nothing to do
        self.figures = Figures()

    @property
    def stands(self) -> bool:
        """Whether this node may carry addresses."""
        return bool(self._carriable)

    def wake(self) -> None:
        """Something that rules depend on has changed, such as the Networks of this node."""
        if self._applied is not None and not self._applied.empty:
            self._wake.set()

    async def run(self) -> None:
        """Keep it so until cancelled."""
        owners = self._lease_file.kept.owners
        # Before any rule is written: an egress namespace that is taken up goes on leading packets to their gateways.
        self._datapath.follow({address: owner.node_address for address, owner in owners.items()})
        before = self._source.remembered()
        while not self._source.synced:
            if not before.empty:
                await self._turn(before, None)
            await self._wait(self._source.wait(), MEND_EVERY)
        while True:
            self._wake.clear()  # before anything is read: what changes from here on makes another turn
            await self._turn(*self._source.current())
            while not await self._changed():
                await self._mend()

    async def _changed(self) -> bool:
        """Wait until the rules are to be looked after; or, which is True, until they are to be worked out anew."""
        unsettled = self._applied is None or bool(self._failures)
        busy = not self._idle and (unsettled or self._named or not self._without_rules)
        for _ in range(_LOOKS if busy else 1):
            if await self._wait(self._wake.wait(), MEND_EVERY / _LOOKS if busy else None):
                await self._clock.sleep(GATHER)
                return True
            # Lost or back again: a node without its link outside has no rules left that would need looking after.
            if self._named and await self._datapath.interfaces(connected=True) != self._interfaces:
                return True
        return unsettled or self._own_address() != self._address or self._clock.monotonic() >= self._check_at

    async def stop(self) -> None:
        """Hand addresses over to others; what nobody can take the kernel carries until its lease ends."""
        await self._leases.hand_over()
        await self._leases.close()

    async def _turn(self, objects: Objects, kept: Remembered | None) -> None:
        """Make it so once. `kept` is to be remembered; there is none while the server is away."""
        address = self._address = self._own_address()
        if objects.empty and self._idle:
            return
        if not address and not objects.empty:
            _log.warning("external services wait until the node has an address")
            return
        if kept is not None:
            # Before it is acknowledged: whoever starts next must know at least what others rely on.
            await self._source.keep(kept)
        compiled = await self._compiled(objects, address)
        await self._leases.serve(address, self._terms(objects, compiled.carriable & self._carriable))
        await self._apply(compiled.state)
        self._carriable = compiled.carriable - self._failures.keys()
        await self._leases.serve(address, self._terms(objects, self._carriable))
        self._idle = objects.empty and kept is not None and not self._failures
        if kept is not None:
            self._acknowledge(objects, compiled)

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

    async def _apply(self, state: ExternalState) -> None:
        """Have the rules so, if they are not; what was changed by somebody else is put back in any case."""
        now = self._clock.monotonic()
        if state == self._applied and not self._failures and now < self._check_at:
            await self._mend()
            return
        try:
            failures = await self._datapath.apply(state)
        except Exception as error:  # the node could not at all, and may later
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
            _log.warning("rules that somebody changed are put back", where=", ".join(mended))

    @property
    def _without_rules(self) -> bool:
        """Whether it is known that there are none here."""
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
                _log.warning("rules could not be applied", of=key, why=str(error) or repr(error))

    def _terms(self, objects: Objects, carriable: Set[str]) -> dict[str, Terms]:
        used = used_gateways(objects.forwarders.values())
        return {
            each.spec.gateway_ip: terms_of(
                each, node=self._node, carriable=each.spec.gateway_ip in carriable, follows=name in used
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
        """Whether it happened in time."""
        try:
            async with asyncio.timeout(seconds):
                await event
        except TimeoutError:
            return False
        return True
