"""One interface to a real and a fake datapath: nodes, their pods, and reachability between them.

In a world of machines every pod of a test is a virtual machine: it has taps, and a kernel behind them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_interface
from pathlib import Path
from typing import Protocol

import pytest

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.datapath.fake import FakeDatapath, FakeUnderlay
from tarmac.datapath.interface import Datapath, NetworkState, NodeNetworks
from tarmac.datapath.linux import LinuxDatapath
from tarmac.decide.addresses import mac_address
from tests.datapath.guests import Guest
from tests.datapath.lab import Lab

EVERYWHERE = ("0.0.0.0/0", "::/0")
PATIENCE = 5.0
DENIED_WITHIN = 0.4
"""The timeout for packets that must not arrive."""

of_both = pytest.mark.parametrize("real", ["pods", "machines"], indirect=True)
"""For tests with packets from pods and from machines."""


class World(Protocol):
    """Nodes that share a wire. Node n has the address 198.18.0.n."""

    machines: bool

    def node(self, number: int) -> Datapath: ...
    async def pod(self, number: int, sandbox_id: str, interfaces: Sequence[AttachedInterface]) -> None:
        """Attach a pod to a node, or run a machine there."""
        ...

    async def attach_again(self, number: int, sandbox_id: str, interfaces: Sequence[AttachedInterface]) -> None: ...

    async def serve(self, sandbox_id: str, port: int) -> None:
        """Respond at a port of a pod with the pod's name, over both protocols and families."""
        ...

    async def reaches(
        self,
        sandbox_id: str,
        address: str,
        port: int = 80,
        protocol: str = "TCP",
        *,
        hope: bool = True,
    ) -> str | None:
        """Return the sandbox that responds, if any. Without hope, the timeout is short."""
        ...

    async def enters(
        self,
        number: int,
        address: str,
        port: int = 80,
        protocol: str = "TCP",
        *,
        outside: bool = False,
        hope: bool = True,
    ) -> str | None:
        """Return the sandbox that responds to a node itself, or to machine 9 outside of it."""
        ...

    async def expect_door(self, number: int, network: str, address: str, port: int, answer: str) -> None:
        """Provide a server for connections of a fake; a real node has the pod's own."""
        ...

    def everything(self, number: int) -> object:
        """Return the visible state of a node, for comparison."""
        ...

    async def close(self) -> None: ...


class FakeWorld:
    """Nodes in memory."""

    def __init__(self, machines: bool = False) -> None:
        self.machines = machines
        self._underlay = FakeUnderlay()
        self._nodes: dict[int, FakeDatapath] = {}
        self._homes: dict[str, FakeDatapath] = {}
        self._servers: list[asyncio.AbstractServer] = []

    def node(self, number: int) -> FakeDatapath:
        if number not in self._nodes:
            self._nodes[number] = FakeDatapath(self._underlay)
        return self._nodes[number]

    async def pod(self, number: int, sandbox_id: str, interfaces: Sequence[AttachedInterface]) -> None:
        if self.machines:
            await self.node(number).attach_taps(sandbox_id, interfaces)
        else:
            await self.node(number).attach(sandbox_id, f"/nowhere/{sandbox_id}", interfaces)
        self._homes[sandbox_id] = self.node(number)

    async def attach_again(self, number: int, sandbox_id: str, interfaces: Sequence[AttachedInterface]) -> None:
        await self.pod(number, sandbox_id, interfaces)

    async def serve(self, sandbox_id: str, port: int) -> None:
        """Do nothing: pods of a fake respond at every port."""

    async def expect_door(self, number: int, network: str, address: str, port: int, answer: str) -> None:
        server = await asyncio.start_server(_named(answer), "127.0.0.1", 0)
        self._servers.append(server)
        self.node(number).doors[network, address, port] = server.sockets[0].getsockname()

    def everything(self, number: int) -> object:
        node = self.node(number)
        return dict(node.attached), node.state, dict(node.doors), node.external.state

    async def reaches(
        self,
        sandbox_id: str,
        address: str,
        port: int = 80,
        protocol: str = "TCP",
        *,
        hope: bool = True,
    ) -> str | None:
        return self._homes[sandbox_id].reaches(sandbox_id, address, port, protocol)

    async def enters(
        self,
        number: int,
        address: str,
        port: int = 80,
        protocol: str = "TCP",
        *,
        outside: bool = False,
        hope: bool = True,
    ) -> str | None:
        source = ("fd99::9" if ":" in address else "198.18.0.9") if outside else ""
        return self.node(number).enters(address, port, protocol, source)

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for node in self._nodes.values():
            await node.remove_all()


class RealWorld:
    """Nodes and pods in network namespaces, with packets."""

    def __init__(self, machines: bool = False) -> None:
        self.machines = machines
        self.lab = Lab()
        self._guests: dict[str, Guest] = {}
        self._nodes: dict[int, LinuxDatapath] = {}
        self._servers: list[asyncio.AbstractServer] = []
        self._echoes: list[asyncio.DatagramTransport] = []
        self._served: set[tuple[str, int]] = set()

    def node(self, number: int) -> LinuxDatapath:
        if number not in self._nodes:
            host = self.lab.machine(number)
            self._nodes[number] = LinuxDatapath(self.lab.folder / f"run-{number}", str(host))
        return self._nodes[number]

    async def restart(self, number: int) -> LinuxDatapath:
        """Replace the process of a node."""
        await self._nodes.pop(number).close()
        return self.node(number)

    def namespace(self, sandbox_id: str) -> Path:
        """Return the pod's namespace."""
        return self.lab.folder / f"pod-{sandbox_id}"

    async def pod(self, number: int, sandbox_id: str, interfaces: Sequence[AttachedInterface]) -> None:
        self.lab.namespace(f"pod-{sandbox_id}")
        if self.machines and sandbox_id not in self._guests:
            await self.machine(number, sandbox_id, interfaces)
        else:
            await self.attach_again(number, sandbox_id, interfaces)

    async def machine(self, number: int, sandbox_id: str, interfaces: Sequence[AttachedInterface]) -> None:
        """Run a machine with the kernel of the sandbox's namespace."""
        node, namespace = self.node(number), self.lab.namespace(f"pod-{sandbox_id}")
        made = (await node.attach_taps(sandbox_id, interfaces)).interfaces
        files = [await node.open_tap(sandbox_id, position) for position in range(len(made))]
        self._guests[sandbox_id] = Guest(self.lab, namespace, made, files)
        self._settle(sandbox_id, interfaces)

    def power_off(self, sandbox_id: str) -> None:
        """End a machine; its interfaces stay."""
        self._guests.pop(sandbox_id).close()

    async def attach_again(self, number: int, sandbox_id: str, interfaces: Sequence[AttachedInterface]) -> None:
        if self.machines:
            await self.node(number).attach_taps(sandbox_id, interfaces)
        else:
            await self.node(number).attach(sandbox_id, str(self.namespace(sandbox_id)), interfaces)
        self._settle(sandbox_id, interfaces)

    def _settle(self, sandbox_id: str, interfaces: Sequence[AttachedInterface]) -> None:
        addresses = [each.partition("/")[0] for interface in interfaces for each in interface.addresses]
        self.lab.settle(self.namespace(sandbox_id), [each for each in addresses if ":" in each])

    async def expect_door(self, number: int, network: str, address: str, port: int, answer: str) -> None:
        """Do nothing: the pod itself responds."""

    def everything(self, number: int) -> object:
        run_dir, machine = self.lab.folder / f"run-{number}", self.lab.machine(number)
        self.lab.carrier(machine)
        return self.lab.everything(machine), [str(each) for each in run_dir.rglob("*")]

    async def serve(self, sandbox_id: str, port: int) -> None:
        """Respond at a port of a pod with the pod's name, over both protocols and families."""
        if (sandbox_id, port) in self._served:
            return
        self._served.add((sandbox_id, port))
        for family in (socket.AF_INET, socket.AF_INET6):
            stream = self._bound(sandbox_id, family, socket.SOCK_STREAM, port)
            server = await asyncio.start_server(_named(sandbox_id), sock=stream)
            self._servers.append(server)
            datagrams = self._bound(sandbox_id, family, socket.SOCK_DGRAM, port)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_datagram_endpoint(lambda: _Named(sandbox_id), sock=datagrams)
            self._echoes.append(transport)

    async def reaches(
        self,
        sandbox_id: str,
        address: str,
        port: int = 80,
        protocol: str = "TCP",
        *,
        hope: bool = True,
    ) -> str | None:
        return await self.answer(self.namespace(sandbox_id), address, port, protocol, hope)

    async def enters(
        self,
        number: int,
        address: str,
        port: int = 80,
        protocol: str = "TCP",
        *,
        outside: bool = False,
        hope: bool = True,
    ) -> str | None:
        return await self.answer(self.lab.machine(9 if outside else number), address, port, protocol, hope)

    async def answer(
        self, caller: Path, address: str, port: int, protocol: str = "TCP", hope: bool = True
    ) -> str | None:
        """Return the response to a caller in a namespace at an address."""
        kind = socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        loop = asyncio.get_running_loop()
        with self.lab.socket(caller, family, kind) as client:
            try:
                async with asyncio.timeout(PATIENCE if hope else DENIED_WITHIN):
                    await loop.sock_connect(client, (address, port))
                    await loop.sock_sendall(client, b"?")
                    return (await loop.sock_recv(client, 100)).decode() or None
            except OSError:
                return None

    async def close(self, *, remove: bool = True) -> None:
        """Stop all servers; without `remove`, the nodes' state is removed with their namespaces, which is faster."""
        try:
            for server in self._servers:
                server.close()
            for echo in self._echoes:
                echo.close()
            for sandbox_id in list(self._guests):
                self.power_off(sandbox_id)
            await asyncio.sleep(0)
            for node in self._nodes.values():
                if remove:
                    await node.remove_all()
                await node.close()
        finally:
            self.lab.close()

    def _bound(self, sandbox_id: str, family: int, kind: int, port: int) -> socket.socket:
        made = self.lab.socket(self.namespace(sandbox_id), family, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", port))
        return made


def _named(name: str):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(1)
            writer.write(name.encode())
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    return answer


class _Named(asyncio.DatagramProtocol):
    def __init__(self, name: str) -> None:
        self._name = name
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        self._transport.sendto(self._name.encode(), addr)


def nic(
    network: str,
    *addresses: str,
    name: str = "eth0",
    vni: int = 4097,
    mtu: int = 1460,
    leads: Sequence[str] = EVERYWHERE,
) -> AttachedInterface:
    """Return an interface with addresses such as 10.128.0.5/20; gateways are the first addresses of their subnets."""
    return AttachedInterface(
        name=name,
        network=network,
        vni=vni,
        mtu=mtu,
        mac=mac_address(network, addresses[0]),
        addresses=list(addresses),
        gateways=[str(ip_interface(each).network[1]) for each in addresses],
        routes=list(leads),
    )


def one_network(state: NetworkState, node: int = 1) -> NodeNetworks:
    """Return the state of a node with a single network."""
    return NodeNetworks((f"198.18.0.{node}",), (state,))
