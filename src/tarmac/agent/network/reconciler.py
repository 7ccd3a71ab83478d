"""Keeps the datapath as the API says, and pods from starting before the rules about them are there.

Changes are gathered for a moment, compiled beside the loop and applied; what the kernel has is compared with it every
minute even when nothing changes. A network stays for a while after its last pod: the next one often comes soon.

No network holds up another. One that is late, or that the kernel refuses, is missing from what is applied, and only its
own pods wait. Where the kernel refuses rules, the network is closed until they change or it is time to try again: its
pods are denied everything rather than left with rules that somebody has taken back. People are told by an Event.

A pod is *covered* once a state that knows it by its addresses has been applied. While the server has not been heard
since the agent began, what is in force is what an earlier agent left in the kernel: it covers the pods it names, and
only those. An address that another pod had before is not covered for the one that has it now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import replace

from msgspec.structs import replace as replace_fields

from tarmac.agent.network.attaching import Uncovered
from tarmac.agent.network.compiler import Compiled, Compiler
from tarmac.agent.network.failures import Complaints, Troubles
from tarmac.agent.network.informers import Watching
from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.client.events import Recorder
from tarmac.client.informer import Informers
from tarmac.datapath.interface import HOST, Datapath, NetworkState, NodeNetworks
from tarmac.decide.reach.members import NetworkPod

GATHER = 0.02
CHECK_EVERY = 60.0
LINGER = 120.0
PATIENCE = 10.0


class NetworkKeeper:
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
        self._compiler = Compiler(node, self._clock.monotonic)
        self._applied = NodeNetworks(())
        self._covered: dict[str, Mapping[str, str]] = {}  # the pods that rules in force are about, by network
        self._check_at = 0.0
        self._news = asyncio.Event()  # another one each time that something has come into force
        self._last_used: dict[str, float] = {}
        self._troubles = Troubles(self._clock, informers.client.randomness)
        self._observers: list[Callable[[Set[str]], Awaitable[None]]] = []
        self._watching = Watching(informers, node, self._wake.set, self._concerns)
        self._complaints = Complaints(recorder, self._watching.networks.by_key)

    @property
    def networks(self) -> Set[str]:
        """The networks that are there now."""
        return {network.name for network in self._applied.networks}

    def on_networks(self, observer: Callable[[Set[str]], Awaitable[None]]) -> None:
        """Call with the networks of this node whenever they have changed, after they have been made."""
        self._observers.append(observer)

    async def covered(self, pod: str, interfaces: Sequence[AttachedInterface]) -> None:
        """Wait until the rules about the pod of this uid, with these interfaces, are in force. Raises Uncovered."""
        if self._covers(pod, interfaces):
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await self._watching.synced()
        except TimeoutError:
            if await self._datapath.has_rules_about(pod, interfaces):
                return
            raise Uncovered(
                "the API server has not been heard since the agent started, "
                "and the rules that the node has from before are not about this pod"
            ) from None
        self._wake.set()
        try:
            async with asyncio.timeout(PATIENCE):
                while not self._covers(pod, interfaces):
                    await self._news.wait()
        except TimeoutError:
            raise Uncovered("the network's rules about the pod are not in force yet") from None

    async def run(self) -> None:
        """Keep the networks right until cancelled."""
        await self._watching.synced()
        while True:
            await self._pause(await self._turn())

    async def _turn(self) -> float:
        """Compile and apply once; how long it is good for if nothing changes."""
        self._wake.clear()  # before the snapshot: what changes from here on makes another turn
        compiled = await self._compile()
        if compiled.late:
            self._wake.set()
        now = self._clock.monotonic()
        found = compiled.networks
        wanted = replace(found, networks=tuple(self._troubles.stand_in(network) for network in found.networks))
        verify, retry_at = now >= self._check_at, self._troubles.next_at
        if wanted != self._applied or verify or (retry_at is not None and retry_at <= now):
            await self._apply(wanted, verify=verify)
        retry_at = self._troubles.next_at
        return min(self._check_at, self._check_at if retry_at is None else retry_at) - now

    async def _compile(self) -> Compiled:
        """In a thread: it can take a second, and the loop answers probes and names meanwhile."""
        now, snapshot = self._clock.monotonic(), self._watching.snapshot()
        kept = {name for name, at in self._last_used.items() if now - at < LINGER and name in snapshot.networks}
        compiled = await asyncio.to_thread(self._compiler.compile, snapshot, self._node_addresses(), kept)
        self._last_used = {name: at for name, at in self._last_used.items() if name in kept}
        self._last_used |= dict.fromkeys(compiled.used, now)
        self._complaints.about(compiled.refusals)
        return compiled

    async def _apply(self, wanted: NodeNetworks, *, verify: bool) -> None:
        failures = await self._tried(wanted, verify=verify)
        if self._troubles.settle(wanted.networks, failures):
            self._wake.set()  # to close what was refused
        if verify:
            self._check_at = self._clock.monotonic() + CHECK_EVERY
        # Where a network failed, what it was before is what is in force.
        known = {network.name: network for network in self._applied.networks if network.name in failures}
        made = (known.get(each.name) if each.name in failures else each for each in wanted.networks)
        before, self._applied = self.networks, replace(wanted, networks=tuple(each for each in made if each))
        self._covered = {network.name: network.pods for network in self._applied.networks}
        self._tell()
        if self.networks != before:
            for observer in self._observers:
                await observer(self.networks)

    async def _tried(self, wanted: NodeNetworks, *, verify: bool) -> Mapping[str, Exception]:
        """Failures by network; all of them when the node itself could not be prepared."""
        try:
            if not wanted.node_addresses:
                raise OSError("the node has no address that others could reach it at")
            return await self._datapath.apply(wanted, verify=verify, made=self._made)
        except Exception as error:
            return dict.fromkeys((HOST, *(network.name for network in wanted.networks)), error)

    def _made(self, network: NetworkState) -> None:
        """One network is in force: its pods need not wait for the others."""
        self._covered[network.name] = network.pods
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _concerns(self, before: NetworkPod | None, after: NetworkPod | None) -> bool:
        """Whether a pod that changed is here, or on a network that is. Where this node is, its pods need not tell."""
        if before and after and before.node == after.node == self._node:
            return replace_fields(before, hosts=()) != replace_fields(after, hosts=())
        return any(self._is_near(version) for version in (before, after) if version)

    def _is_near(self, member: NetworkPod) -> bool:
        networks = {each.network for each in member.interfaces} | {member.as_node}
        return member.node == self._node or not networks.isdisjoint(self._last_used)

    async def _pause(self, seconds: float) -> None:
        """Until something changes, and a moment more for what changes with it."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        await self._clock.sleep(GATHER)

    def _covers(self, pod: str, interfaces: Sequence[AttachedInterface]) -> bool:
        return all(
            self._covered.get(interface.network, {}).get(address.partition("/")[0]) == pod
            for interface in interfaces
            for address in interface.addresses
        )
