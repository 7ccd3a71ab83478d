"""The tunnel of external services between nodes of different cities goes through WireGuard.

One link in the node's own namespace, a peer for each such node. Tunnel packets to a peer are led into the link by a
rule about their address and port; what comes out there has the peer's address as its source, since nothing else is
taken from it.

Rules that forbid the way around come first and go last, so that no failure in between lets anything out in the clear:
a node that can be spoken with in no other way is closed. Peers come before whatever leads packets to them (`begin`),
and go after it (`settle`). The kernel is the record of what there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import SubprocessError
from typing import Final, Protocol, TypeVar

from tarmac.base.clock import Clock, SystemClock
from tarmac.base.log import log
from tarmac.datapath.external import Means, TunnelPeer
from tarmac.datapath.linux import links, namespaces, routing
from tarmac.datapath.linux.external.outside import NOBODY
from tarmac.datapath.linux.external.wireguard import WireGuardLink, is_key
from tarmac.datapath.linux.host import Host
from tarmac.datapath.linux.naming import encrypted_link, host_table
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.nftables import Nftables
from tarmac.datapath.linux.policyrouting import Rule, ensure_rules, present_rules
from tarmac.datapath.linux.routing import Route
from tarmac.datapath.linux.tables.encrypted import encrypted

TABLE: Final = 4800
_PRIORITY: Final = 99
_OVERHEAD: Final = {4: 60, 6: 80}
_PATIENCE: Final = 5.0  # for the program
_PAUSE: Final = 0.02
_AGAIN: Final = 5.0
_LOOSE: Final = "2"

_log = log("external")

T = TypeVar("T")
Peers = tuple[TunnelPeer, ...]


class Run(Protocol):
    """Runs work in the datapath's thread."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


def overhead(address: str) -> int:
    """By how much encrypted packets to a node have to be smaller."""
    return _OVERHEAD[6 if ":" in address else 4]


class Encryption:
    """The encrypted link of one node. `failed` says why there is none, while there should be one."""

    def __init__(self, run_dir: Path, host: Callable[[], Host], run: Run, clock: Clock | None = None) -> None:
        self.wireguard = WireGuardLink(encrypted_link(str(run_dir)), run_dir / "wireguard.pid")
        self.private_key, self.failed = b"", ""
        self._table = f"{host_table(str(run_dir))}-encrypted"
        self._host, self._run = host, run
        self._clock = clock or SystemClock()
        self._turn = asyncio.Lock()
        self._rules: Nftables | None = None
        self._closed: frozenset[str] | None = None  # None while it is not known what there is
        self._keys: dict[str, str] = {}  # public key -> address that has had it first
        self._told: tuple[str, Peers] = "", ()
        self._again_at = 0.0
        self._found: Means = "none"

    async def means(self) -> Means:
        """By what packets can be encrypted. What has failed in earnest is believed again once it has worked."""
        async with self._turn:
            if self.failed and not self._told[1]:
                await self._attempt(self._trial())
            if self.failed:
                return "none"
            if self._found == "none":
                self._found = await self._run(self._means)
            return self._found

    async def begin(self, node_address: str, peers: Peers) -> None:
        """Exchange packets of the tunnel with these nodes encrypted only, and still with those of before.

        Raises when not even that is sure; where it merely cannot be encrypted, those nodes are closed.
        """
        async with self._turn:
            known = {address: TunnelPeer(address) for address in await self._run(self.encrypted)}
            known |= {each.address: each for each in (*self._told[1], *peers)}
            if peers:
                await self._ensure(node_address, tuple(sorted(known.values())))

    async def settle(self, node_address: str, peers: Peers) -> None:
        """Nothing leads to others than these any more: let go of them."""
        async with self._turn:
            if peers:
                await self._ensure(node_address, tuple(sorted(peers)))
            else:
                await self._run(self._end)

    async def mend(self) -> bool:
        """Have the link again, if somebody took it away or its program ended; whether that was so."""
        async with self._turn:
            if not self._told[1] or (not self.failed and await self._run(self._is_whole)):
                return False
            await self._ensure(*self._told)
            return not self.failed

    async def transferred(self) -> Mapping[str, int]:
        """Bytes exchanged with each peer, by address; nothing while there is no link."""
        async with self._turn:
            if not self._told[1] or self.failed:
                return {}
            return await self._run(self._transferred)

    def encrypted(self) -> frozenset[str]:
        """The nodes that packets go to encrypted, also by the word of an earlier process. In the datapath's thread."""
        if self._closed is None:
            with _netlink() as netlink:
                self._closed = _led(netlink)
        return self._closed

    def remove_now(self) -> None:
        """Leave nothing of it behind, in the datapath's thread."""
        with _netlink() as netlink:
            self._take_away(netlink)

    def close(self) -> None:
        """Close what is open, in the datapath's thread; all stays as it is."""
        if self._rules is not None:
            self._rules.close()
            self._rules = None

    def _means(self) -> Means:
        with _netlink() as netlink:
            return self.wireguard.means(netlink)

    async def _ensure(self, node_address: str, peers: Peers) -> None:
        await self._run(lambda: self._close(peers))
        wanted, same = (node_address, peers), self._told == (node_address, peers)
        waits = bool(self.failed) and self._clock.monotonic() < self._again_at
        if same and (waits or (not self.failed and await self._run(self._is_whole))):
            return
        self._told = wanted
        await self._attempt(self._open(node_address, peers))

    async def _attempt(self, work: Awaitable[None]) -> None:
        try:
            await work
        except (OSError, SubprocessError) as error:
            self._again_at = self._clock.monotonic() + _AGAIN
            if str(error) != self.failed:
                _log.warning("tunnels to other cities cannot be encrypted, and are closed", why=str(error))
            self.failed, self._found = str(error) or repr(error), "none"
        else:
            self.failed = ""

    def _close(self, peers: Peers) -> None:
        addresses = frozenset(each.address for each in peers)
        if self._rules is None:
            self._rules = Nftables()
        self._rules.ensure([encrypted(self._table, self.wireguard.name, addresses)])
        self._closed = addresses

    async def _open(self, node_address: str, peers: Peers) -> None:
        await self._start()
        await self._run(lambda: self._lead(node_address, peers))

    async def _trial(self) -> None:
        """All but peers."""
        try:
            await self._start()
            await self._run(lambda: self.wireguard.tell(self.private_key, ()))
        finally:
            await self._run(self._end)

    async def _start(self) -> None:
        await self._run(self._begin)
        until = self._clock.monotonic() + _PATIENCE
        while not await self._run(self._is_ready):
            if self._clock.monotonic() > until:
                raise OSError(f"the link {self.wireguard.name} did not come up within {_PATIENCE:.0f} s")
            await self._clock.sleep(_PAUSE)

    def _begin(self) -> None:
        with _netlink() as netlink:
            self.wireguard.start(netlink)

    def _is_ready(self) -> bool:
        with _netlink() as netlink:
            return self.wireguard.ready(netlink)

    def _is_whole(self) -> bool:
        with _netlink() as netlink:
            there = links.link(netlink, self.wireguard.name) is not None
            return there and _led(netlink) == self._closed

    def _lead(self, node_address: str, peers: Peers) -> None:
        self.wireguard.tell(self.private_key, self._distinct(peers))
        with _netlink() as netlink:
            link = links.link(netlink, self.wireguard.name)
            if link is None:
                raise OSError(f"the link {self.wireguard.name} has vanished")
            # What comes in has the address of a node that is reached by another link, but for this one port. A check
            # of that which is merely loose lets it be, if the link has any address at all.
            namespaces.set_controls({f"ipv4/conf/{link.name}/rp_filter": _LOOSE})
            mtu = self._host().underlay(node_address) - overhead(node_address)
            ways = [routing.route(Route(each, link.index, table=TABLE)) for each in ("0.0.0.0/0", "::/0")]
            netlink.request([links.setting(link.index, mtu=mtu), routing.address(link.index, NOBODY), *ways])
            wanted = (Rule(_PRIORITY, TABLE, to=each.address, port=links.EXTERNAL_PORT) for each in peers)
            ensure_rules(netlink, wanted)

    def _distinct(self, peers: Peers) -> list[TunnelPeer]:
        """Those that have a key. One that another node has already goes on meaning that node, whoever else says it."""
        sound = [each for each in peers if is_key(each.public_key)]
        there = {each.address: each.public_key for each in sound}
        self._keys = {key: address for key, address in self._keys.items() if there.get(address) == key}
        for each in sound:
            self._keys.setdefault(each.public_key, each.address)
        return [each for each in sound if self._keys[each.public_key] == each.address]

    def _transferred(self) -> Mapping[str, int]:
        try:
            found = self.wireguard.transferred()
        except (OSError, SubprocessError):  # it has just gone, which is mended elsewhere
            return {}
        return {self._keys[key]: number for key, number in found.items() if key in self._keys}

    def _end(self) -> None:
        self._told = "", ()
        with _netlink() as netlink:
            there = links.link(netlink, self.wireguard.name) is not None
            if there or self.encrypted() or self.wireguard.has_program:
                self._take_away(netlink)

    def _take_away(self, netlink: Netlink) -> None:
        ensure_rules(netlink, ())
        self.wireguard.remove(netlink)
        rules = self._rules = self._rules or Nftables()
        rules.remove("inet", self._table)
        self._closed, self._told = frozenset(), ("", ())


def _led(netlink: Netlink) -> frozenset[str]:
    """The nodes that rules lead packets to by the link."""
    return frozenset(each.to for each in present_rules(netlink) if each.table == TABLE)


@contextmanager
def _netlink() -> Generator[Netlink]:
    """A socket for a moment, in the namespace of the thread."""
    made = Netlink()
    try:
        yield made
    finally:
        made.close()
