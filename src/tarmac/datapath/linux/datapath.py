"""The datapath of a Linux node.

All changes to the kernel run in one dedicated thread: it may enter other network namespaces, and calls never
interleave. A second thread only opens sockets, so a probe does not wait for a change. The state is in the kernel and in
the namespaces mounted under the run directory; a new process adopts it from there.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import socket
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, Literal, TypeVar

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.base.log import log
from tarmac.datapath.interface import HOST, Attached, NetworkState, NodeNetworks, Traffic, ignore
from tarmac.datapath.linux import namespaces
from tarmac.datapath.linux.egress.egressdatapath import LinuxEgressDatapath
from tarmac.datapath.linux.egress.encryption import Encryption
from tarmac.datapath.linux.egress.wireguard import WireGuardPrograms
from tarmac.datapath.linux.ends import RouterLink
from tarmac.datapath.linux.host import Host, tunnels_of
from tarmac.datapath.linux.ingress.ingressdatapath import LinuxIngressDatapath
from tarmac.datapath.linux.naming import end_name, router_name, sandbox_mark
from tarmac.datapath.linux.pod import configure_pod, prepare_pod
from tarmac.datapath.linux.router import Router

T = TypeVar("T")

_ADDRESS_SECONDS: Final = 5.0
_A_MOMENT: Final = 0.002

_log = log("network")


class LinuxDatapath:
    """Networks of the node with the namespace `host`. The content of `run_dir` must not survive a reboot."""

    def __init__(
        self,
        run_dir: Path,
        host: str = "/proc/self/ns/net",
        *,
        private_key: bytes = b"",
        wireguard: Callable[[], WireGuardPrograms] | None = None,
        conntrackd: Path | None = None,
        bird: Path | None = None,
    ) -> None:
        """`private_key` encrypts tunnels, `wireguard` finds the programs for it.

        `conntrackd` shares connections, `bird` announces public addresses.
        """
        self._run_dir = run_dir
        self._folder = run_dir / "netns"
        self._thread = ThreadPoolExecutor(1, "datapath", initializer=namespaces.enter, initargs=(host,))
        # A thread of its own: behind a large change, probes would time out and restart healthy pods.
        self._sockets = ThreadPoolExecutor(1, "datapath-sockets", initializer=namespaces.enter, initargs=(host,))
        self._host: Host | None = None
        self._prepared_for: object = None
        self._offered: object = None
        self._routers: dict[str, Router] = {}  # by the name of their files
        self.tunnels = Encryption(run_dir, self._known_host, self._run)
        self.tunnels.private_key = private_key
        self.external = LinuxEgressDatapath(run_dir, self._folder, self._known_host, self._run, self.tunnels)
        self.external.state_sync.program = conntrackd
        self.ingress = LinuxIngressDatapath(run_dir, self._folder, self._known_host, self._run, self.tunnels)
        self.ingress.speaker.program = bird
        if wireguard is not None:
            self.external.encryption.wireguard.programs = wireguard

    async def attach(self, sandbox_id: str, namespace: str, interfaces: Sequence[AttachedInterface]) -> Attached:
        """Create the pod's links in the network namespace at the path `namespace`. Idempotent."""
        return await self._run(lambda: self._attach(sandbox_id, namespace, interfaces))

    async def attach_taps(self, sandbox_id: str, interfaces: Sequence[AttachedInterface]) -> Attached:
        """Create a machine's links, each a tap that stays until `detach`. Idempotent, also for taps in use."""
        return await self._run(lambda: self._attach_taps(sandbox_id, interfaces))

    async def open_tap(self, sandbox_id: str, position: int, *, further: bool = False) -> io.FileIO:
        """Open the tap of a machine's interface, counted from 0; with `further`, one more queue of an open one."""
        return await self._run(lambda: self._open_tap(sandbox_id, position, further=further))

    async def traffic(self) -> Mapping[str, Traffic]:
        """Return the bytes of each machine since its taps were created, by sandbox, from the guest's point of view."""
        return await self._run(self._traffic)

    async def detach(self, sandbox_id: str) -> None:
        """Remove the links of a pod or machine."""
        await self._run(lambda: self._detach(sandbox_id))

    async def apply(
        self, state: NodeNetworks, *, verify: bool = True, made: Callable[[NetworkState], None] = ignore
    ) -> Mapping[str, Exception]:
        """Make the node's networks match `state`; return failures by network.

        Each network is a separate task of the datapath's thread, the small ones first: pods of other networks are
        attached in between.
        """
        if state.node_addresses:
            # Block plaintext before any network can send packets that must be encrypted.
            await self.tunnels.lead(state.node_addresses[0], state.tunnels)
        # Before any network is configured: until the node's table exists, packets could pass between networks.
        await self._run(lambda: self._prepare(state, verify))
        failures: dict[str, Exception] = {}
        for network in sorted(state.networks, key=lambda each: each.weight):
            if await self._attempt(network.name, partial(self._configure, state, network, verify), failures):
                made(network)
        await self._attempt(HOST, partial(self._offer, state, verify), failures)
        # After the routers: it routes into their uplinks, which exist by now.
        await self._attempt(HOST, partial(self._route_into, state, verify), failures)
        return failures

    async def _attempt(self, name: str, piece: Callable[[], None], failures: dict[str, Exception]) -> bool:
        try:
            await self._run(piece)
        except Exception as failure:
            # Recorded, not raised: one broken network must not keep all others from being applied.
            failures[name] = failure
        return name not in failures

    async def sweep(self, live: Set[str]) -> Sequence[str]:
        """Remove links that belong to none of the sandboxes in `live`; return the ids of the removed sandboxes."""
        return await self._run(lambda: self._sweep(live))

    async def has_rules_about(self, pod: str, interfaces: Sequence[AttachedInterface]) -> bool:
        """Return True if rules for this pod (its uid) are in force at all its addresses, also from an earlier agent."""
        return await self._run(lambda: self._has_rules_about(pod, interfaces))

    async def connect(self, network: str, address: str, port: int, timeout: float) -> socket.socket:
        """Return a connected, non-blocking TCP socket inside the network's router namespace."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        loop = asyncio.get_running_loop()
        # The namespace of a socket is that of the thread that makes it; afterwards it works in any thread.
        made = await loop.run_in_executor(self._sockets, self._socket, network, family, socket.SOCK_STREAM)
        try:
            async with asyncio.timeout(timeout):
                await loop.sock_connect(made, (address, port))
        except BaseException:
            made.close()
            raise
        return made

    async def bind(self, network: str, address: str, port: int, kind: Literal["tcp", "udp"]) -> socket.socket:
        """Return a listening socket inside the network's router namespace (DNS, metadata)."""
        made = await self._run(lambda: self._bind(network, address, port, kind))
        try:
            async with asyncio.timeout(_ADDRESS_SECONDS):
                router = self._routers[router_name(network)]
                # The kernel makes a new IPv6 address usable only after a moment. Packets before that would be lost.
                while not await self._run(lambda: router.has_address(address)):  # noqa: ASYNC110 no event exists
                    await asyncio.sleep(_A_MOMENT)
        except BaseException:
            made.close()
            raise
        return made

    def sandboxes(self) -> Set[str]:
        """Return the known sandboxes that have links."""
        # Called in the event loop while the datapath's thread changes the routers: iterate over a copy.
        return {_identity(each) for router in list(self._routers.values()) for each in router.ends}

    def sandbox_of(self, network: str, interface_index: int) -> str | None:
        """Return the sandbox behind a link of a router namespace; empty for the node itself."""
        router = self._routers.get(router_name(network))
        if router is not None and router.uplink is not None and router.uplink.inside == interface_index:
            return ""
        ends = router.ends if router else ()
        return next((each.sandbox_id for each in ends if each.index == interface_index), None)

    async def close(self) -> None:
        """Close sockets and threads; networks stay as they are."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        # Waits for queued work: a task that is dropped would leave a network half configured.
        self._thread.shutdown()
        self._sockets.shutdown()

    async def remove_all(self) -> None:
        """Remove everything that this datapath has created."""
        await self._run(self._remove_all)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run_adopted, work)

    def _run_adopted(self, work: Callable[[], T]) -> T:
        """Run work in the thread, after adopting the networks of earlier processes."""
        if self._host is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Before the routers, and once: a failure here is raised to the caller and tried again with the next work.
            self._host = Host(self._run_dir)
            for path in self._folder.iterdir():
                try:
                    self._router(path.name)
                except Exception as failure:  # retried when it is needed; pods of other networks do not wait for it
                    _log.error("existing network cannot be adopted", router=path.name, error=repr(failure))
        return work()

    def _known_host(self) -> Host:
        assert self._host is not None, "the host is known before anything is made"
        return self._host

    def _router(self, name: str) -> Router:
        if name not in self._routers:
            assert self._host is not None, "the host is known before its routers"
            self._routers[name] = Router(self._folder / name, self._host)
        return self._routers[name]

    def _attach(self, sandbox_id: str, namespace: str, interfaces: Sequence[AttachedInterface]) -> Attached:
        # Before the links: a link that is up with `accept_ra` or `forwarding` on could already act on packets.
        prepare_pod(namespace)
        # Held open: all links go into the same namespace, even if its path is replaced meanwhile.
        there = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for position, interface in enumerate(interfaces):
                self._router(router_name(interface.network)).attach(sandbox_id, position, interface, there)
        finally:
            os.close(there)
        # After the router's ends, whose source check must be in force before the pod can send.
        configure_pod(namespace, interfaces)
        for position, interface in enumerate(interfaces):
            self._router(router_name(interface.network)).settle(sandbox_id, position)
        return Attached(tuple(interfaces))

    def _attach_taps(self, sandbox_id: str, interfaces: Sequence[AttachedInterface]) -> Attached:
        routers = [self._router(router_name(interface.network)) for interface in interfaces]
        pairs = enumerate(zip(routers, interfaces, strict=True))
        return Attached(tuple(router.attach_tap(sandbox_id, position, each) for position, (router, each) in pairs))

    def _open_tap(self, sandbox_id: str, position: int, *, further: bool) -> io.FileIO:
        name = end_name(sandbox_id, position)
        for router in self._routers.values():
            if any(each.end.link == name and each.end.guest for each in router.ends):
                return router.open_tap(name, further=further)
        raise OSError(errno.ENODEV, f"sandbox {sandbox_id} has no tap {position}")

    def _traffic(self) -> Mapping[str, Traffic]:
        found: dict[str, Traffic] = {}
        for sandbox_id, counted in chain.from_iterable(router.traffic() for router in self._routers.values()):
            found[sandbox_id] = found.get(sandbox_id, Traffic()) + counted
        return found

    def _detach(self, sandbox_id: str) -> None:
        for router in self._routers.values():
            router.detach(sandbox_id)

    def _prepare(self, state: NodeNetworks, verify: bool) -> None:
        assert self._host is not None, "the host is known before it is changed"
        wanted = {router_name(network.name) for network in state.networks}
        self._remove([name for name, router in self._routers.items() if name not in wanted and not router.ends])
        about = tunnels_of(state)
        if verify or self._prepared_for != about:
            # Unknown if this fails halfway: the next `apply` must not skip it.
            self._prepared_for = None
            self._host.keep_only(tuple(self._routers))
            self._host.prepare(state)
            self._prepared_for = about

    def _configure(self, state: NodeNetworks, network: NetworkState, verify: bool) -> None:
        self._router(router_name(network.name)).configure(network, state.node_addresses[0], verify=verify)

    def _offer(self, state: NodeNetworks, verify: bool) -> None:
        assert self._host is not None, "the host is known before it is changed"
        if verify or self._offered != state.services:
            self._offered = None
            self._host.offer(state.services)
            self._offered = state.services

    def _route_into(self, state: NodeNetworks, verify: bool) -> None:
        assert self._host is not None, "the host is known before it is changed"
        routers = ((self._routers.get(router_name(network.name)), network) for network in state.networks)
        connected = {router.uplink: network for router, network in routers if router and router.uplink}
        if state.node_addresses:
            self._host.lead(connected, state.node_addresses[0], verify=verify)

    def _remove(self, names: Sequence[str]) -> None:
        for name in names:
            self._routers[name].remove()
            del self._routers[name]

    def _sweep(self, live: Set[str]) -> Sequence[str]:
        # Also by name: a link whose alias was never written may belong to a live sandbox.
        marks = tuple({sandbox_mark(each) for each in live})
        swept: set[str] = set()
        for router in self._routers.values():
            dead = [each for each in router.ends if _identity(each) not in live and not each.end.link.startswith(marks)]
            swept |= {_identity(each) for each in dead}
            router.remove_ends(dead)
            router.clear()
        return sorted(swept)

    def _has_rules_about(self, pod: str, interfaces: Sequence[AttachedInterface]) -> bool:
        routers = [(self._routers.get(router_name(each.network)), each.addresses) for each in interfaces]
        return all(router is not None and router.has_rules_about(pod, addresses) for router, addresses in routers)

    def _socket(self, network: str, family: int, kind: int) -> socket.socket:
        path = self._folder / router_name(network)
        if not namespaces.exists(path):
            raise OSError(errno.ENETUNREACH, f"network {network} is not on this node")
        with namespaces.inside(path):
            # A socket stays in the namespace that it was opened in.
            made = socket.socket(family, kind)
        made.setblocking(False)
        return made

    def _bind(self, network: str, address: str, port: int, kind: Literal["tcp", "udp"]) -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        made = self._socket(network, family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        try:
            self._routers[router_name(network)].add_address(address)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address, port))
            if kind == "tcp":
                made.listen(128)
        except BaseException:
            made.close()
            raise
        return made

    def _close(self) -> None:
        self.external.close()
        self.ingress.close()
        for router in self._routers.values():
            router.close()
        self._routers.clear()
        if self._host is not None:
            self._host.close()
            self._host, self._prepared_for, self._offered = None, None, None

    def _remove_all(self) -> None:
        assert self._host is not None, "the host is known before it is changed"
        # Before the rules that forbid plaintext, which go with external services.
        self.ingress.remove_now()
        self.external.remove_now()
        self._remove(list(self._routers))
        self._host.remove()
        # Fails while a namespace is left in it: then the removal is incomplete, and must not look done.
        self._folder.rmdir()
        self._close()


def _identity(end: RouterLink) -> str:
    return end.sandbox_id or end.end.link
