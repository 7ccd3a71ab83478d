"""Public addresses on this node: the ingress namespace, the Networks' doors, and the permitted senders of the tunnel.

Created on demand: a node without any part in public addresses has none of it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from ipaddress import ip_address, ip_network
from itertools import chain
from pathlib import Path

from tarmac.api.networking.names import NODE_PORTS
from tarmac.api.networking.ports import INGRESS_PORT
from tarmac.datapath.ingress import MAX_NODES, IngressAddress, IngressState, OpenPort
from tarmac.datapath.linux import namespaces
from tarmac.datapath.linux.egress.encryption import Encryption, Run, overhead
from tarmac.datapath.linux.host import Host
from tarmac.datapath.linux.ingress.door import Door
from tarmac.datapath.linux.ingress.namespace import IngressNamespace
from tarmac.datapath.linux.ingress.speaker import BirdSpeaker
from tarmac.datapath.linux.naming import ingress_leg_name, router_name
from tarmac.datapath.linux.tables.receiving import Reception

Failures = dict[str, Exception]


class LinuxIngressDatapath:
    """Public addresses of a node; `run` runs work in the datapath's thread, where `host` is known."""

    def __init__(
        self, run_dir: Path, routers: Path, host: Callable[[], Host], run: Run, encryption: Encryption
    ) -> None:
        self._path, self._routers = run_dir / "ingress" / "netns", routers
        self._host, self._run, self._encryption = host, run, encryption
        self.speaker = BirdSpeaker(run_dir, run)
        self._ingress: IngressNamespace | None = None
        self._doors: dict[str, Door] = {}

    async def apply(self, state: IngressState) -> Mapping[str, Exception]:
        """Make the node match the state; return failures by address."""
        # Plaintext to these nodes is blocked before rules route to them, and unblocked only once no rule does.
        await self._encryption.begin(INGRESS_PORT, state.node_address, state.encrypted)
        failures = await self._run(lambda: self._apply(state))
        await self._encryption.settle(INGRESS_PORT, state.node_address, state.encrypted)
        return self._unencrypted(state) | failures

    async def mend(self) -> Sequence[str]:
        """Repair external changes; return the repaired parts."""
        mended = await self._run(self._mend)
        return [*mended, "encryption"] if await self._encryption.mend() else mended

    def carry(self, seconds: Mapping[str, float]) -> None:
        """Serve addresses for so many seconds."""
        if self._ingress is not None:
            self._ingress.carrier.carry(seconds)

    def drop(self, addresses: Sequence[str]) -> None:
        """Stop serving addresses."""
        if self._ingress is not None:
            self._ingress.carrier.drop(addresses)

    def announce(self, addresses: Sequence[str]) -> None:
        """Announce addresses on their segments if this node serves them at this moment."""
        if self._ingress is not None:
            self._ingress.carrier.announce(addresses)

    def carried(self) -> Mapping[str, float]:
        """Return the addresses that this node serves, with their remaining seconds."""
        return {} if self._ingress is None else self._ingress.carrier.carried()

    def probe(self, address: str) -> str:
        """Return the hardware address of a foreign host that uses an address; empty if none answers."""
        ingress = self._ingress
        return "" if ingress is None else ingress.carrier.probe(address)

    async def connect(self, address: str, port: int, timeout: float) -> None:
        """Open a TCP connection of the node itself to a public address, and close it. Raises OSError."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        # Made in the datapath's thread: a socket belongs to the namespace of the thread that made it.
        made = await self._run(lambda: socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
        with made:
            async with asyncio.timeout(timeout):
                await asyncio.get_running_loop().sock_connect(made, (address, port))

    async def remove(self) -> None:
        """Remove everything."""
        await self._run(self.remove_now)
        await self._encryption.settle(INGRESS_PORT, "", ())

    def close(self) -> None:
        """Close sockets, in the datapath's thread; the kernel state stays as it is."""
        self.speaker.close()
        self._close_state()

    def _close_state(self) -> None:
        for door in self._doors.values():
            door.close()
        self._doors.clear()
        if self._ingress is not None:
            self._ingress.close()
            self._ingress = None

    def remove_now(self) -> None:
        """Remove everything, in the datapath's thread. State of an earlier process is found by its namespace."""
        # Before the rules that routers' packets need.
        self.speaker.remove_now()
        self._remove_state()

    def _remove_state(self) -> None:
        if self._ingress is None and not self._path.parent.exists():
            return
        for path in self._routers.iterdir() if self._routers.exists() else ():
            if namespaces.exists(path):
                self._door(path).remove()
        self._host().remove_ingress()
        if self._ingress is not None or namespaces.exists(self._path):
            ingress = self._namespace()
            self._ingress = None  # closed even if the removal fails
            ingress.remove()
        self._path.unlink(missing_ok=True)  # a file without a namespace is left by a killed process
        self._path.parent.rmdir()
        self._close_state()

    def _apply(self, state: IngressState) -> Failures:
        if state.empty:
            self._remove_state()
            return {}
        failures: Failures = {}
        addresses = [each for each in state.addresses if _is_sound(each, failures)]
        addresses = self._with_networks_here(addresses, failures)
        sound = replace(state, addresses=tuple(addresses))
        # Before the tunnel exists: without this table, packets of any host would be accepted.
        peers = {each for each in state.peers if each != state.node_address}
        answering = ((node, each.address) for each in addresses for node in each.answerers if node in peers)
        routed = [each.address for each in addresses if each.routed]
        doors = [(each.address, port) for each in addresses if each.address in NODE_PORTS for port in each.ports]
        self._host().admit_ingress(peers, [each.address for each in addresses], answering, routed, doors)
        ingress = self._namespace()
        legs = self._connected(ingress, sound, failures)
        for name, door in self._known_doors():
            door.receive(_receptions(addresses, name))
        # After the doors: the node that chooses this one must find the translation in place.
        failures |= ingress.ensure(sound, legs, self._mtu(state.node_address))
        used = {router_name(network) for network in legs}
        for name, door in self._known_doors():
            if name not in used:
                door.remove()
                self._doors.pop(name).close()
        ingress.keep_only(legs.values())
        return failures

    def _unencrypted(self, state: IngressState) -> Failures:
        """Return failures of addresses with endpoints at other Locations only, while encryption fails."""
        if not self._encryption.failed:
            return {}
        far = {each.address for each in state.encrypted}
        failure = OSError(f"tunnels to other Locations are closed: {self._encryption.failed}")
        nodes = {each.address: {node for port in each.ports for node, _ in port.nodes} for each in state.addresses}
        return {address: failure for address, of in nodes.items() if of and of <= far}

    def _mtu(self, node_address: str) -> int:
        """Return the largest packet of clients that passes to every node."""
        # One route leads to all nodes, so its size is that of the narrowest way.
        encrypted = self._encryption.encrypted(INGRESS_PORT)
        return self._host().mtu(0, node_address) - (overhead(node_address) if encrypted else 0)

    def _mend(self) -> Sequence[str]:
        mended = [name for name, door in self._known_doors() if door.mend()]
        if self._ingress is not None and self._ingress.mend():
            mended.append("ingress")
        return mended

    def _namespace(self) -> IngressNamespace:
        if self._ingress is None:
            self._ingress = IngressNamespace(self._path, self._host())
        return self._ingress

    def _connected(self, ingress: IngressNamespace, state: IngressState, failures: Failures) -> dict[str, str]:
        """Connect router namespaces; return their links by Network. A failure concerns only the addresses there."""
        found: dict[str, str] = {}
        mtu = self._mtu(state.node_address)
        wanted = {each for address in state.addresses for each in _networks(address)}
        # Also without a backend: draining endpoints answer the connections that they have.
        wanted |= {each for each in state.networks if namespaces.exists(self._routers / router_name(each))}
        for network in sorted(wanted):
            path = self._routers / router_name(network)
            try:
                ingress.connect(path, mtu)
                self._door(path).lead(mtu)
                ingress.settle(path)
            except OSError as failure:
                failures |= {each.address: failure for each in state.addresses if network in _networks(each)}
            else:
                found[network] = ingress_leg_name(path.name)
        return found

    def _with_networks_here(self, addresses: Iterable[IngressAddress], failures: Failures) -> list[IngressAddress]:
        """Leave backends out whose Network is not on this node yet; their address fails, and works elsewhere."""
        here: dict[str, bool] = {}
        found: list[IngressAddress] = []
        for each in addresses:
            for network in _networks(each) - here.keys():
                here[network] = namespaces.exists(self._routers / router_name(network))
            missing = sorted(network for network in _networks(each) if not here[network])
            if missing:
                failures[each.address] = OSError(f"network {missing[0]} is not on this node")
            ports = (
                replace(port, backends=tuple(backend for backend in port.backends if here[backend.network]))
                for port in each.ports
            )
            found.append(replace(each, ports=tuple(ports)) if missing else each)
        return found

    def _door(self, path: Path) -> Door:
        known = self._doors.get(path.name)
        # Recreated under the same name: sockets of the old door belong to a namespace that is gone.
        if known is not None and known.identity != path.stat().st_ino:
            known.close()
            known = None
        self._doors[path.name] = known or Door(path)
        return self._doors[path.name]

    def _known_doors(self) -> list[tuple[str, Door]]:
        """Return the doors of the router namespaces that exist."""
        for name in [name for name in self._doors if not namespaces.exists(self._routers / name)]:
            self._doors.pop(name).close()
        return [(name, self._door(self._routers / name)) for name in list(self._doors)]


def _networks(address: IngressAddress) -> set[str]:
    return {backend.network for port in address.ports for backend in port.backends}


def _receptions(addresses: Iterable[IngressAddress], router: str) -> list[Reception]:
    """Return the ports with backends in one Network, by the name of its router namespace."""
    return [
        Reception(each.address, port.protocol, port.port, here, port.affinity)
        for each in addresses
        for port in each.ports
        if (
            here := tuple(
                (backend.address, backend.port)
                for backend in sorted(port.backends)
                if router_name(backend.network) == router
            )
        )
    ]


def _is_sound(each: IngressAddress, failures: Failures) -> bool:
    """Return True if every part may become nft text: canonical addresses of one family, and ports."""
    try:
        family = _version(each.address)
        for port in each.ports:
            _check_port(port, family)
        # Each list once: a Service has one for all its ports.
        for clients in chain.from_iterable({port.clients for port in each.ports if port.clients}):
            if ip_network(clients).version != family:
                raise ValueError(f"{clients} is not a range of IPv{family}")
        if len({(port.protocol, port.port) for port in each.ports}) < len(each.ports):
            raise ValueError(f"a port of {each.address} is open twice")
        for node in (*each.answerers, *(node for port in each.ports for node, _ in port.nodes)):
            _version(node)
    except ValueError as fault:
        failures[each.address] = fault
        return False
    return True


def _check_port(port: OpenPort, family: int) -> None:
    for number in (port.port, *(backend.port for backend in port.backends)):
        if not 0 < number < 1 << 16:
            raise ValueError(f"{number} is not between 1 and 65535")
    for backend in port.backends:
        if _version(backend.address) != family:
            raise ValueError(f"{backend.address} is not an address of IPv{family}")
    if len(port.nodes) > MAX_NODES:
        raise ValueError(f"{len(port.nodes)} nodes have endpoints; at most {MAX_NODES} can")


@lru_cache(maxsize=1 << 14)
def _version(address: str) -> int:
    parsed = ip_address(address)
    if str(parsed) != address:  # the kernel prints the canonical form, so the table would appear to have changed
        raise ValueError(f"{address} is usually written {parsed}")
    return parsed.version
