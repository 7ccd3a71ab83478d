"""Sends tunnels between nodes through WireGuard: those of external services, of public addresses, and of Networks.

There is one link in the node's own namespace, with a peer for each node that any user needs. Tunnels of external
services and of public addresses have a port each, and their packets enter the link by a policy rule for address and
port; those of instances by a mark that depends on the number of their Network (`tables/encrypted`). Received packets
have the peer's address as their source, since WireGuard accepts no other.

Rules that forbid plaintext come first and go last, so that no failure in between lets a packet out unencrypted: a node
that cannot be reached encrypted is closed. Peers are added before packets are routed to them (`begin`), and removed
afterwards (`settle`). The kernel holds the state: until all users have called, a new agent keeps the rules and peers
that an earlier one made for the other users.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import SubprocessError
from typing import Final, Protocol, TypeVar

from tarmac.api.networking.ports import EXTERNAL_PORT, INGRESS_PORT
from tarmac.base.clock import Clock, SystemClock
from tarmac.base.log import log
from tarmac.datapath.egress import EncryptedPeer, InstanceTunnels, Means
from tarmac.datapath.linux import links, namespaces, routing
from tarmac.datapath.linux.egress.outside import DUMMY_ADDRESS
from tarmac.datapath.linux.egress.wireguard import WireGuardLink, is_key
from tarmac.datapath.linux.host import Host
from tarmac.datapath.linux.naming import encrypted_link, host_table
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.nftables import Nftables
from tarmac.datapath.linux.policyrouting import RoutingRule, ensure_rules, has_rules, present_rules
from tarmac.datapath.linux.routing import Route
from tarmac.datapath.linux.tables.encrypted import MARK, encrypted, instances
from tarmac.decide.addresses.mtu import ENCRYPTION_OVERHEAD

TABLE: Final = 4800
_PRIORITY: Final = 99
_TIMEOUT: Final = 5.0  # to wait for the program
_PAUSE: Final = 0.02
_RETRY_SECONDS: Final = 5.0
_LOOSE: Final = "2"
_LEAD: Final = RoutingRule(_PRIORITY, TABLE, mark=MARK, mask=0xFFFF_FFFF)

_log = log("external")

T = TypeVar("T")
Peers = tuple[EncryptedPeer, ...]


class Run(Protocol):
    """Runs work in the datapath's thread."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


def overhead(address: str) -> int:
    """Return the bytes by which encrypted packets to a node must be smaller."""
    return ENCRYPTION_OVERHEAD[6 if ":" in address else 4]


class Encryption:
    """The encrypted link of one node. `failed` is the reason why the wanted link does not exist."""

    def __init__(self, run_dir: Path, host: Callable[[], Host], run: Run, clock: Clock | None = None) -> None:
        self.wireguard = WireGuardLink(encrypted_link(str(run_dir)), run_dir / "wireguard.pid")
        self.private_key, self.failed = b"", ""
        own = host_table(str(run_dir))
        self._tables = {EXTERNAL_PORT: f"{own}-encrypted", INGRESS_PORT: f"{own}-encrypted-ingress"}
        self._instances_table = f"{own}-tunnels"
        self._host, self._run = host, run
        self._clock = clock or SystemClock()
        self._lock = asyncio.Lock()
        self._rules: Nftables | None = None
        self._closed: dict[int, frozenset[str]] = {}  # by port; without an entry the state of the kernel is unknown
        self._keys: dict[str, str] = {}  # public key -> first address that used it
        self._address = ""
        self._users: dict[int, Peers] = {}  # by port; without an entry the user has not called yet
        self._instances: InstanceTunnels | None = None
        self._opened: object = None  # configuration that the link was last opened for
        self._retry_at = 0.0
        self._available: Means = "none"

    async def means(self) -> Means:
        """Return the available means of encryption. After a failure, "none" until an attempt has succeeded."""
        async with self._lock:
            # Without peers nothing else would try again, and the node would report no means for ever.
            if self.failed and not self._peers():
                await self._attempt(self._trial())
            if self.failed:
                return "none"
            if self._available == "none":
                self._available = await self._run(self._means)
            return self._available

    async def begin(self, port: int, node_address: str, peers: Peers) -> None:
        """Exchange packets of the tunnel at a port with these nodes only encrypted, and still with the previous ones.

        An exception means that plaintext cannot be ruled out; if only encryption fails, those nodes are closed.
        """
        async with self._lock:
            # Peers of an earlier process too: until rules no longer route to them, their packets must stay encrypted.
            known = {address: EncryptedPeer(address) for address in await self._run(lambda: self.encrypted(port))}
            known |= {each.address: each for each in (*self._users.get(port, ()), *peers)}
            if peers:
                self._address, self._users[port] = node_address, tuple(sorted(known.values()))
                await self._ensure()

    async def settle(self, port: int, node_address: str, peers: Peers) -> None:
        """Remove all peers of the tunnel at a port but these, now that no packets are routed to them."""
        async with self._lock:
            # Replaces, where `begin` only adds: it is called once no route leads to the removed peers.
            self._address, self._users[port] = node_address or self._address, tuple(sorted(peers))
            await self._ensure()

    async def lead(self, node_address: str, wanted: InstanceTunnels) -> None:
        """Encrypt packets of instances as requested. An exception means that plaintext cannot be ruled out."""
        async with self._lock:
            self._address, self._instances = node_address, wanted
            await self._ensure()

    async def mend(self) -> bool:
        """Recreate the link if it was deleted or its program ended. Return True if it was repaired."""
        async with self._lock:
            if not self._peers() or (not self.failed and await self._run(self._is_intact)):
                return False
            await self._ensure()
            return not self.failed

    async def transferred(self) -> Mapping[str, int]:
        """Return the bytes exchanged with each peer, by address; empty while there is no link."""
        async with self._lock:
            if not self._peers() or self.failed:
                return {}
            return await self._run(self._transferred)

    def encrypted(self, port: int) -> frozenset[str]:
        """Return the nodes that packets of the tunnel at a port go to encrypted, also set up by an earlier process.

        In the datapath's thread.
        """
        if port not in self._closed:
            with _netlink() as netlink:
                self._closed[port] = _routed_peers(netlink, port)
        return self._closed[port]

    def remove_now(self) -> None:
        """Remove everything, in the datapath's thread."""
        with _netlink() as netlink:
            self._remove_all(netlink)

    def close(self) -> None:
        """Close sockets, in the datapath's thread; the kernel state stays as it is."""
        if self._rules is not None:
            self._rules.close()
            self._rules = None

    def _means(self) -> Means:
        with _netlink() as netlink:
            return self.wireguard.means(netlink)

    def _peers(self) -> Peers:
        """Return the peers of all users. If several name one and only one has a key for it, use that one."""
        named = [each for peers in self._users.values() for each in peers]
        named += self._instances.peers if self._instances else ()
        return tuple(sorted({each.address: each for each in sorted(named)}.values()))

    def _awaits_users(self) -> bool:
        """Return True if a user that has not called yet may need what an earlier agent made for it.

        In the datapath's thread.
        """
        return self._instances is None or any(self.encrypted(port) for port in self._tables.keys() - self._users.keys())

    async def _ensure(self) -> None:
        # Order: forbid plaintext, open or end the link, and only then lift rules that are not needed any more.
        await self._run(self._close)
        peers = self._peers()
        # A user that has not called since the start may still need the link of the earlier agent.
        if peers or await self._run(self._awaits_users):
            await self._ensure_link(peers)
        else:
            await self._run(self._end)
        await self._run(self._release)

    async def _ensure_link(self, peers: Peers) -> None:
        wanted = self._address, peers, dict(self._users), self._instances
        waits = bool(self.failed) and self._clock.monotonic() < self._retry_at
        if self._opened == wanted and (waits or (not self.failed and await self._run(self._is_intact))):
            return
        # Set before the attempt: a failure is repeated after a pause, and not at every call.
        self._opened = wanted
        if peers:
            await self._attempt(self._open(peers))
        else:
            await self._run(self._route_rules)

    async def _attempt(self, work: Awaitable[None]) -> None:
        try:
            await work
        except (OSError, SubprocessError) as error:
            self._retry_at = self._clock.monotonic() + _RETRY_SECONDS
            if str(error) != self.failed:
                _log.warning("tunnels to other cities cannot be encrypted, and are closed", why=str(error))
            self.failed, self._available = str(error) or repr(error), "none"
        else:
            self.failed = ""

    def _close(self) -> None:
        """Forbid plaintext for everything that is requested."""
        rules, link, wanted = self._nftables(), self.wireguard.name, self._instances
        for port, peers in self._users.items():
            if peers:
                addresses = frozenset(each.address for each in peers)
                rules.ensure([encrypted(self._tables[port], link, port, addresses)])
                # After the rules are in force: it decides where packets are expected to be encrypted.
                self._closed[port] = addresses
        if wanted is not None and wanted.numbers:
            # In force before the link: packets of instances are dropped until it is up, never sent in plaintext.
            rules.ensure([instances(self._instances_table, link, wanted.always, wanted.between, wanted.plain)])

    def _release(self) -> None:
        """Remove the rules of a user without requests, now that its packets are not routed into the link any more."""
        for port, peers in self._users.items():
            if not peers:
                # Only now: while a route still led into the link, removing the rule would let plaintext pass if the
                # link fails.
                self._nftables().remove("inet", self._tables[port])
                self._closed[port] = frozenset()
        if self._instances is not None and not self._instances.numbers:
            self._nftables().remove("inet", self._instances_table)

    def _nftables(self) -> Nftables:
        self._rules = self._rules or Nftables()
        return self._rules

    async def _open(self, peers: Peers) -> None:
        await self._start()
        await self._run(lambda: self._route_peers(peers))

    async def _trial(self) -> None:
        """Start the link without peers."""
        try:
            await self._start()
            await self._run(lambda: self.wireguard.configure(self.private_key, (), self._clock.now()))
        finally:
            await self._run(self._end)

    async def _start(self) -> None:
        await self._run(self._begin)
        # The program creates the link itself, some time after its start; there is no event to wait for.
        until = self._clock.monotonic() + _TIMEOUT
        while not await self._run(self._is_ready):
            if self._clock.monotonic() > until:
                raise OSError(f"the link {self.wireguard.name} did not come up within {_TIMEOUT:.0f} s")
            await self._clock.sleep(_PAUSE)

    def _begin(self) -> None:
        with _netlink() as netlink:
            self.wireguard.start(netlink)

    def _is_ready(self) -> bool:
        with _netlink() as netlink:
            return self.wireguard.ready(netlink)

    def _is_intact(self) -> bool:
        with _netlink() as netlink:
            there = links.link(netlink, self.wireguard.name) is not None
            return there and has_rules(netlink, self._wanted_rules(netlink))

    def _wanted_rules(self, netlink: Netlink) -> set[RoutingRule]:
        """Return the wanted rules; for a user that has not called yet, the present ones."""
        present = present_rules(netlink)
        to_peers = {each for each in present if each.to and each.port not in self._users}
        to_peers |= {
            RoutingRule(_PRIORITY, TABLE, to=each.address, port=port)
            for port, peers in self._users.items()
            for each in peers
        }
        leads = bool(self._instances.numbers) if self._instances is not None else _LEAD in present
        return to_peers | ({_LEAD} if leads else set())

    def _route_rules(self) -> None:
        with _netlink() as netlink:
            ensure_rules(netlink, self._wanted_rules(netlink))

    def _route_peers(self, peers: Peers) -> None:
        node_address, distinct = self._address, self._distinct(peers)
        if self._awaits_users():
            known = {each.address for each in peers} | {each.public_key for each in distinct}
            # A user that has not called yet may need peers of the earlier agent: they stay until it does.
            kept = self.wireguard.configured()
            distinct += [each for each in kept if each.address not in known and each.public_key not in known]
        self.wireguard.configure(self.private_key, distinct, self._clock.now())
        with _netlink() as netlink:
            link = links.link(netlink, self.wireguard.name)
            if link is None:
                raise OSError(f"the link {self.wireguard.name} has vanished")
            # Incoming packets have the address of a node that is otherwise reached by another link. Loose reverse path
            # filtering accepts that, if the link has any address at all.
            namespaces.set_controls({f"ipv4/conf/{link.name}/rp_filter": _LOOSE})
            mtu = self._host().underlay(node_address) - overhead(node_address)
            ways = [routing.route(Route(each, link.index, table=TABLE)) for each in ("0.0.0.0/0", "::/0")]
            netlink.request([links.setting(link.index, mtu=mtu), routing.address(link.index, DUMMY_ADDRESS), *ways])
            ensure_rules(netlink, self._wanted_rules(netlink))

    def _distinct(self, peers: Peers) -> list[EncryptedPeer]:
        """Return the peers with a valid key.

        A key stays with the first node that used it; a second node that publishes it is ignored.
        """
        sound = [each for each in peers if is_key(each.public_key)]
        there = {each.address: each.public_key for each in sound}
        # A key whose owner has gone or has another key is free: a node that is reinstalled could not return otherwise.
        self._keys = {key: address for key, address in self._keys.items() if there.get(address) == key}
        for each in sound:
            self._keys.setdefault(each.public_key, each.address)
        return [each for each in sound if self._keys[each.public_key] == each.address]

    def _transferred(self) -> Mapping[str, int]:
        try:
            found = self.wireguard.transferred()
        except (OSError, SubprocessError):  # just deleted; repaired elsewhere
            return {}
        return {self._keys[key]: number for key, number in found.items() if key in self._keys}

    def _end(self) -> None:
        """Remove the link. Forbidding rules go last, and those of Networks stay: without a peer they are closed."""
        # Forgotten first: an end that fails halfway is followed by a full opening, not by a check of the old one.
        self._opened = None
        with _netlink() as netlink:
            there = links.link(netlink, self.wireguard.name) is not None
            routed = any(map(self.encrypted, self._tables))
            if there or routed or self.wireguard.has_program or present_rules(netlink):
                ensure_rules(netlink, ())
                self.wireguard.remove(netlink)

    def _remove_all(self, netlink: Netlink) -> None:
        ensure_rules(netlink, ())
        self.wireguard.remove(netlink)
        for table in (*self._tables.values(), self._instances_table):
            self._nftables().remove("inet", table)
        self._closed = {}
        self._users, self._instances, self._opened = {}, None, None


def _routed_peers(netlink: Netlink, port: int) -> frozenset[str]:
    """Return the nodes that rules route packets of the tunnel at a port to through the link."""
    return frozenset(
        each.to for each in present_rules(netlink) if each.table == TABLE and each.to and each.port == port
    )


@contextmanager
def _netlink() -> Generator[Netlink]:
    """Open a temporary socket in the thread's namespace."""
    made = Netlink()
    try:
        yield made
    finally:
        made.close()
