"""Keeps the datapath as the API says, and pods from starting before the rules about them are there.

Changes are gathered for a moment, compiled together and applied; what the kernel has is compared with it every minute
even when nothing changes. A network stays for a while after its last pod: the next one often comes soon.

A pod is *covered* once a state that knows it by its addresses has been applied. While the server has not been heard
since the agent began, what is in force is what an earlier agent left in the kernel: it covers the pods it names, and
only those. An address that another pod had before is not covered for the one that has it now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Set

from msgspec.structs import replace

from tarmac.agent.network.cni.server import Uncovered
from tarmac.agent.network.compiling import compile_networks, networks_on
from tarmac.agent.network.compiling.members import Member
from tarmac.agent.network.watching import Watching
from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.base.log import log
from tarmac.client.backoff import Backoff
from tarmac.client.informer import Informers
from tarmac.datapath.interface import Datapath, NodeNetworks

GATHER = 0.02
CHECK_EVERY = 60.0
LINGER = 120.0
PATIENCE = 10.0

_log = log("network")


class NetworkKeeper:
    """The networks of one node."""

    def __init__(
        self, informers: Informers, datapath: Datapath, node: str, node_addresses: Callable[[], Sequence[str]]
    ) -> None:
        self._datapath = datapath
        self._clock = informers.client.clock
        self._node = node
        self._node_addresses = node_addresses
        self._wake = asyncio.Event()
        self._applied = NodeNetworks(())
        self._check_at = 0.0
        self._news = asyncio.Condition()
        self._last_used: dict[str, float] = {}
        self._observers: list[Callable[[Set[str]], Awaitable[None]]] = []
        self._watching = Watching(informers, node, self._wake.set, self._concerns)
        self._backoff = Backoff(informers.client.randomness, 0.2, 30.0)

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
            async with asyncio.timeout(PATIENCE), self._news:
                await self._news.wait_for(lambda: self._covers(pod, interfaces))
        except TimeoutError:
            raise Uncovered("the network's rules about the pod are not in force yet") from None

    async def run(self) -> None:
        """Keep the networks right until cancelled."""
        await self._watching.synced()
        while True:
            await self._pause(await self._turn())

    async def _turn(self) -> float:
        """Compile and apply once; how long it is good for if nothing changes."""
        self._wake.clear()
        wanted = self._compile()
        now = self._clock.monotonic()
        verify = now >= self._check_at
        if wanted == self._applied and not verify:
            return self._check_at - now
        try:
            if not wanted.node_addresses:
                raise OSError("the node has no address that others could reach it at")
            await self._datapath.apply(wanted, verify=verify)
        except Exception as error:
            _log.error("networks could not be applied", error=repr(error), why=_details(error))
            return self._backoff.next()
        self._backoff.reset()
        if verify:
            self._check_at = now + CHECK_EVERY
        before, self._applied = self.networks, wanted
        async with self._news:
            self._news.notify_all()
        if self.networks != before:
            for observer in self._observers:
                await observer(self.networks)
        return self._check_at - now

    def _compile(self) -> NodeNetworks:
        now = self._clock.monotonic()
        snapshot = self._watching.snapshot()
        self._last_used |= dict.fromkeys(networks_on(snapshot, self._node), now)
        self._last_used = {name: at for name, at in self._last_used.items() if now - at < LINGER}
        kept = {name for name in self._last_used if name in snapshot.networks}
        return compile_networks(snapshot, self._node, self._node_addresses(), kept)

    def _concerns(self, before: Member | None, after: Member | None) -> bool:
        """Whether a pod that changed is here, or on a network that is. Where this node is, its pods need not tell."""
        if before and after and before.node == after.node == self._node:
            return replace(before, hosts=()) != replace(after, hosts=())
        return any(self._is_near(version) for version in (before, after) if version)

    def _is_near(self, member: Member) -> bool:
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
        pods = {network.name: network.pods for network in self._applied.networks}
        return all(
            pods.get(interface.network, {}).get(address.partition("/")[0]) == pod
            for interface in interfaces
            for address in interface.addresses
        )


def _details(error: Exception) -> list[str]:
    inner = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
    return [f"{each} ({', '.join(getattr(each, '__notes__', ()))})" for each in inner]
