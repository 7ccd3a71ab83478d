"""Reconciles the datapath with the API, and delays the start of pods until their rules are in force.

Changes are debounced, compiled in a thread and applied; every minute the kernel's state is verified even if nothing
changes. A network stays for a while after its last pod: the next one often comes soon.

Networks do not delay each other. One that is late, or that the kernel rejects, is omitted, and only its own pods wait.
While the kernel rejects its rules, a network is closed until they change or the backoff ends: its pods are denied
everything rather than left with withdrawn rules. An Event reports it.

A pod is *covered* once a state that includes it with its addresses has been applied. Until the informers have synced,
the rules that an earlier agent left in the kernel are in force: they cover the pods they name, and only those. An
address that another pod had before is not covered for its new pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import replace

from msgspec.structs import replace as replace_fields

from tarmac.agent.network.attaching import RulesNotApplied
from tarmac.agent.network.compiler import CompiledNetworks, NetworkCompiler
from tarmac.agent.network.failures import FailureEvents, NetworkFailures
from tarmac.agent.network.informers import NetworkInformers
from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.client.eventrecorder import Recorder
from tarmac.client.informer import Informers
from tarmac.datapath.interface import HOST, Datapath, NetworkState, NodeNetworks
from tarmac.decide.reach.members import NetworkPod

DEBOUNCE = 0.02
CHECK_INTERVAL = 60.0
LINGER = 120.0
TIMEOUT = 10.0


class NetworkReconciler:
    """The networks of one node."""

    def __init__(
        self,
        informers: Informers,
        datapath: Datapath,
        node: str,
        node_addresses: Callable[[], Sequence[str]],
        recorder: Recorder,
    ) -> None:
        self._datapath = datapath
        self._clock = informers.client.clock
        self._node = node
        self._node_addresses = node_addresses
        self._wake = asyncio.Event()
        self._compiler = NetworkCompiler(node, self._clock.monotonic)
        self._applied = NodeNetworks(())
        self._covered: dict[str, Mapping[str, str]] = {}  # the pods with rules in force, by network
        self._check_at = 0.0
        self._progress = asyncio.Event()  # replaced each time that a state has come into force
        self._last_used: dict[str, float] = {}
        self._failures = NetworkFailures(self._clock, informers.client.randomness)
        self._observers: list[Callable[[Set[str]], Awaitable[None]]] = []
        self._informers = NetworkInformers(informers, node, self._wake.set, self._concerns)
        self._failure_events = FailureEvents(recorder, self._informers.networks.by_key)

    @property
    def networks(self) -> Set[str]:
        """The networks in force."""
        return {network.name for network in self._applied.networks}

    @property
    def applied(self) -> NodeNetworks:
        """The networks and tunnels in force."""
        return self._applied

    @property
    def endpoints(self) -> Mapping[str, TunnelEndpoint]:
        """The tunnel ends of all nodes, by name."""
        return self._informers.endpoints.by_key

    def on_networks(self, observer: Callable[[Set[str]], Awaitable[None]]) -> None:
        """Call `observer` with the networks of this node whenever they have changed, after they were applied."""
        self._observers.append(observer)

    async def wait_until_applied(self, pod: str, interfaces: Sequence[AttachedInterface]) -> None:
        """Wait until the rules for the pod of this uid, with these interfaces, are in force. Raises RulesNotApplied."""
        if self._covers(pod, interfaces):
            return
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._informers.synced()
        except TimeoutError:
            if await self._datapath.has_rules_about(pod, interfaces):
                return
            raise RulesNotApplied(
                "the API server has not been heard since the agent started, "
                "and the rules that the node has from before are not about this pod"
            ) from None
        self._wake.set()
        try:
            async with asyncio.timeout(TIMEOUT):
                while not self._covers(pod, interfaces):
                    # No await between the check and the wait: `_notify` may replace the event at any other time.
                    await self._progress.wait()
        except TimeoutError:
            raise RulesNotApplied("the network's rules about the pod are not in force yet") from None

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._informers.synced()
        while True:
            await self._pause(await self._reconcile())

    async def _reconcile(self) -> float:
        """Compile and apply once. Return the seconds until the next pass if nothing changes."""
        self._wake.clear()  # before the snapshot, so that a later change starts another pass
        compiled = await self._compile()
        if compiled.late:
            self._wake.set()
        now = self._clock.monotonic()
        found = compiled.networks
        wanted = replace(found, networks=tuple(self._failures.substitute(network) for network in found.networks))
        verify, retry_at = now >= self._check_at, self._failures.next_at
        if wanted != self._applied or verify or (retry_at is not None and retry_at <= now):
            await self._apply(wanted, verify=verify)
        retry_at = self._failures.next_at
        return min(self._check_at, self._check_at if retry_at is None else retry_at) - now

    async def _compile(self) -> CompiledNetworks:
        """Compile in a thread: it can take a second, and the event loop serves probes and DNS meanwhile."""
        now, snapshot = self._clock.monotonic(), self._informers.snapshot()
        kept = {name for name, at in self._last_used.items() if now - at < LINGER and name in snapshot.networks}
        compiled = await asyncio.to_thread(self._compiler.compile, snapshot, self._node_addresses(), kept)
        # Assigned after the thread has finished: a cancelled pass leaves the times of the last complete one.
        self._last_used = {name: at for name, at in self._last_used.items() if name in kept}
        self._last_used |= dict.fromkeys(compiled.used, now)
        self._failure_events.about(compiled.refusals)
        return compiled

    async def _apply(self, wanted: NodeNetworks, *, verify: bool) -> None:
        failures = await self._try_apply(wanted, verify=verify)
        if self._failures.record(wanted.networks, failures):
            self._wake.set()  # to close rejected networks
        if verify:
            # After the attempt, also a failed one: a verification that takes longer than the interval must not run
            # without pause.
            self._check_at = self._clock.monotonic() + CHECK_INTERVAL
        # A failed network keeps its previous state in force.
        known = {network.name: network for network in self._applied.networks if network.name in failures}
        made = (known.get(each.name) if each.name in failures else each for each in wanted.networks)
        before, self._applied = self.networks, replace(wanted, networks=tuple(each for each in made if each))
        # Replaced as a whole: pods of networks that have gone must not count as covered when a network of that name
        # returns.
        self._covered = {network.name: network.pods for network in self._applied.networks}
        self._notify()
        if self.networks != before:
            for observer in self._observers:
                await observer(self.networks)

    async def _try_apply(self, wanted: NodeNetworks, *, verify: bool) -> Mapping[str, Exception]:
        """Apply; return failures by network, or all networks if the node itself could not be prepared."""
        try:
            if not wanted.node_addresses:
                raise OSError("the node has no address that others could reach it at")
            return await self._datapath.apply(wanted, verify=verify, made=self._on_applied)
        except Exception as error:
            return dict.fromkeys((HOST, *(network.name for network in wanted.networks)), error)

    def _on_applied(self, network: NetworkState) -> None:
        """Mark one network as in force: its pods need not wait for the remaining networks."""
        self._covered[network.name] = network.pods
        self._notify()

    def _notify(self) -> None:
        # Replaced, not cleared: each waiter wakes once per change, and then waits for the next one.
        self._progress.set()
        self._progress = asyncio.Event()

    def _concerns(self, before: NetworkPod | None, after: NetworkPod | None) -> bool:
        """Return True if a changed pod is here, or on a network that is.

        Changes of only the own node's addresses are ignored.
        """
        if before and after and before.node == after.node == self._node:
            return replace_fields(before, hosts=()) != replace_fields(after, hosts=())
        return any(self._is_near(version) for version in (before, after) if version)

    def _is_near(self, member: NetworkPod) -> bool:
        networks = {each.network for each in member.interfaces} | {member.as_node}
        return member.node == self._node or not networks.isdisjoint(self._last_used)

    async def _pause(self, seconds: float) -> None:
        """Wait for a change, and then for the debounce interval."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        # After the wake-up, not before: a single change is applied within this interval, a burst in one pass.
        await self._clock.sleep(DEBOUNCE)

    def _covers(self, pod: str, interfaces: Sequence[AttachedInterface]) -> bool:
        return all(
            self._covered.get(interface.network, {}).get(address.partition("/")[0]) == pod
            for interface in interfaces
            for address in interface.addresses
        )
