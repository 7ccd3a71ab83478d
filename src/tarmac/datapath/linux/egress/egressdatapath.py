"""External services on this node: the egress namespace, the Networks' legs, and the permitted senders of the tunnel.

Created on demand: a node without any part in external services has none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tarmac.api.networking.ports import EXTERNAL_PORT
from tarmac.datapath.egress import (
    Arrival,
    Departure,
    EgressState,
    Forwarding,
    GatewayTraffic,
    Means,
    SourceAddress,
    TranslatedConnection,
    Translations,
)
from tarmac.datapath.linux import namespaces
from tarmac.datapath.linux.egress.checking import check_forwarding, check_source, leaving_out
from tarmac.datapath.linux.egress.encryption import Encryption, Run, overhead
from tarmac.datapath.linux.egress.leg import Leg
from tarmac.datapath.linux.egress.namespace import EgressNamespace
from tarmac.datapath.linux.egress.statesync import StateSync
from tarmac.datapath.linux.host import Host
from tarmac.datapath.linux.naming import leg_name, router_name
from tarmac.datapath.linux.tables.admission import Answerer, Sender
from tarmac.decide.reach.marks import node_marks

T = TypeVar("T")
Parts = tuple[Sequence[Departure], Sequence[Arrival]]
Failures = dict[str, Exception]


class LinuxEgressDatapath:
    """External services of a node; `run` runs work in the datapath's thread, where `host` is known."""

    def __init__(
        self, run_dir: Path, routers: Path, host: Callable[[], Host], run: Run, encryption: Encryption
    ) -> None:
        self._path, self._routers = run_dir / "external" / "netns", routers
        self._host, self._run = host, run
        self._egress: EgressNamespace | None = None
        self._legs: dict[str, Leg] = {}
        self._followed: dict[str, str] = {}
        self.encryption = encryption
        self.state_sync = StateSync(run_dir, self._path, run)

    def identify(self, private_key: bytes) -> None:
        """Set the node's own key for encryption."""
        self.encryption.private_key = private_key

    async def means(self) -> Means:
        """Return the available means of encrypting the tunnel to other cities."""
        return await self.encryption.means()

    async def transferred(self) -> Mapping[str, int]:
        """Return the bytes exchanged with nodes of other cities."""
        return await self.encryption.transferred()

    async def apply(self, state: EgressState) -> Mapping[str, Exception]:
        """Make the node match the state; return failures by ExternalService or address."""
        # Plaintext to peers is blocked before rules route to them, and unblocked for old peers only once no rule does.
        await self.encryption.begin(EXTERNAL_PORT, state.node_address, state.peers)
        failures = await self._run(lambda: self._apply(state))
        await self.encryption.settle(EXTERNAL_PORT, state.node_address, state.peers)
        # Last, and optional: addresses are served even if sharing fails.
        await self.state_sync.ensure(state.node_address, "" if state.empty else state.partner)
        return self._unencrypted(state) | failures

    async def mend(self) -> Sequence[str]:
        """Repair external changes; return the repaired parts."""
        mended = await self._run(self._mend)
        await self.state_sync.check()
        return [*mended, "encryption"] if await self.encryption.mend() else mended

    async def carriage(self) -> GatewayTraffic:
        """Return the traffic through this node as a gateway."""
        return await self._run(lambda: GatewayTraffic() if self._egress is None else self._egress.carriage())

    async def tracked(self) -> tuple[int, int] | None:
        """Return the number of tracked connections of the egress namespace, and the maximum."""
        return await self._run(lambda: None if self._egress is None else self._egress.tracked())

    async def connections(self, transits: Collection[str], most: int) -> Translations:
        """Return live connections under some transit addresses."""
        return await self._run(lambda: self._connections(transits, most))

    def follow(self, owners: Mapping[str, str]) -> None:
        """Route packets of addresses to the nodes that own them now."""
        self._followed |= owners  # also used by an egress namespace that is created later
        if self._egress is not None:
            self._egress.carrier.follow(owners)

    def carry(self, seconds: Mapping[str, float]) -> None:
        """Serve addresses for so many seconds."""
        if self._egress is not None:
            self._egress.carrier.carry(seconds)

    def drop(self, addresses: Sequence[str]) -> None:
        """Stop serving addresses."""
        if self._egress is not None:
            self._egress.carrier.drop(addresses)

    def announce(self, addresses: Sequence[str]) -> None:
        """Announce addresses on their segments if this node serves them at this moment."""
        if self._egress is not None:
            self._egress.carrier.announce(addresses)

    def carried(self) -> Mapping[str, float]:
        """Return the addresses that this node serves, with their remaining seconds."""
        return {} if self._egress is None else self._egress.carrier.carried()

    def probe(self, address: str) -> str:
        """Return the hardware address of a foreign host that uses an address; empty if none answers."""
        egress = self._egress
        return "" if egress is None else egress.carrier.probe(address)

    async def interfaces(self, *, connected: bool = False) -> Mapping[str, Sequence[str]]:
        """Return the node's own interfaces and their addresses."""
        return await self._run(lambda: self._host().interfaces(connected=connected))

    async def remove(self) -> None:
        """Remove everything."""
        await self._run(self._remove_own)
        await self.encryption.settle(EXTERNAL_PORT, "", ())

    def close(self) -> None:
        """Close sockets, in the datapath's thread; the kernel state stays as it is."""
        self.encryption.close()
        for leg in self._legs.values():
            leg.close()
        self._legs.clear()
        if self._egress is not None:
            self._egress.close()
            self._egress = None

    def remove_now(self) -> None:
        """Remove everything, in the datapath's thread."""
        self._remove_own()
        self.encryption.remove_now()
        self.close()

    def _remove_own(self) -> None:
        """Remove everything that instances do not use as well."""
        self._remove_all()
        self.state_sync.remove_now()
        for leg in self._legs.values():
            leg.close()
        self._legs.clear()

    def _unencrypted(self, state: EgressState) -> Failures:
        """Return failures of ExternalServices with gateways in other cities while encryption fails."""
        peers = {each.address for each in state.peers} if self.encryption.failed else set[str]()
        closed = {each.address for each in state.sources if peers.intersection(each.candidates)}
        found = (each.name for each in state.forwardings if any(way.source in closed for way in each.ways))
        return {name: OSError(f"tunnels to other cities are closed: {self.encryption.failed}") for name in found}

    def _apply(self, state: EgressState) -> Failures:
        if state.empty:
            self._remove_all()
            return {}
        failures: Failures = {}
        forwardings = list(_valid(state.forwardings, check_forwarding, failures, lambda each: each.name))
        sources = list(_valid(state.sources, check_source, failures, lambda each: each.address))
        forwardings = self._with_networks_here(forwardings, failures)
        sound = replace(state, forwardings=tuple(forwardings), sources=tuple(sources))
        # Before the tunnel exists: without this table, packets of any host would be accepted.
        self._host().admit(_senders(sound), _answerers(sound))
        egress = self._egress_namespace()
        mtu = self._host().mtu(0, state.node_address)
        encrypted = {each: mtu - overhead(each) for each in self.encryption.encrypted(EXTERNAL_PORT)}
        networks = self._connected(egress, forwardings, mtu, min(encrypted.values(), default=mtu), failures)
        # The legs are connected by now: routes back to transit addresses lead through them.
        failures |= egress.ensure(sound, _transits(forwardings, sources), encrypted)
        # After the routes and links, before the legs: a pod's first packet must find the rules of the gateway.
        egress.allow()
        for name, leg in self._known_legs():
            self._allow(leg, [(each, _in(each, name)) for each in networks.get(name, ())], failures)
        for name, leg in self._known_legs():
            if name not in networks:
                self._forget(name, leg)
        egress.keep_only(leg_name(name) for name in networks)
        return failures

    def _allow(self, leg: Leg, parts: Sequence[tuple[Forwarding, Parts]], failures: Failures) -> None:
        def attempt(some: Sequence[tuple[Forwarding, Parts]]) -> None:
            leg.allow([out for _, (each, _) in some for out in each], [back for _, (_, each) in some for back in each])

        failures |= {each.name: fault for (each, _), fault in leaving_out(parts, attempt)}

    def _mend(self) -> Sequence[str]:
        mended = [name for name, leg in self._known_legs() if leg.mend()]
        if self._egress is not None and self._egress.ruleset.drifted():
            self._egress.allow(anew=True)
            mended.append("egress")
        return mended

    def _connections(self, transits: Collection[str], most: int) -> Translations:
        forwarded: list[TranslatedConnection] = []
        for _, leg in self._known_legs():
            if leg.uses(transits):
                forwarded += leg.translations(transits, most - len(forwarded))
        carried = [] if self._egress is None else self._egress.translations(transits, most)
        return Translations(forwarded, carried)

    def _egress_namespace(self) -> EgressNamespace:
        if self._egress is None:
            made = EgressNamespace(self._path, self._host())
            # Before it is visible to the lease thread: an owner announced in between would be overwritten by an older
            # one.
            made.carrier.follow(self._followed)
            self._egress = made
        return self._egress

    def _connected(
        self,
        egress: EgressNamespace,
        forwardings: Iterable[Forwarding],
        mtu: int,
        largest: int,
        failures: Failures,
    ) -> dict[str, list[Forwarding]]:
        """Connect router namespaces; return their ExternalServices.

        A namespace that cannot be connected fails only its own.
        """
        found = _by_network(forwardings)
        for name, own in list(found.items()):
            path = self._routers / name
            try:
                egress.connect(path, mtu)
                self._leg(path).lead(mtu, largest)
                egress.settle(path)
            except OSError as failure:
                failures |= {each.name: failure for each in own}
                del found[name]
        return found

    def _with_networks_here(self, forwardings: Iterable[Forwarding], failures: Failures) -> list[Forwarding]:
        """Return the ExternalServices with all their Networks on this node. The remaining ones fail."""
        found: list[Forwarding] = []
        here: dict[str, bool] = {}
        for each in forwardings:
            for network in each.networks - here.keys():
                here[network] = namespaces.exists(self._routers / router_name(network))
            missing = [network for network in each.networks if not here[network]]
            if missing:
                failures[each.name] = OSError(f"network {min(missing)} is not on this node")
            else:
                found.append(each)
        return found

    def _leg(self, path: Path) -> Leg:
        known = self._legs.get(path.name)
        # Recreated under the same name: sockets of the old leg belong to a namespace that is gone.
        if known is not None and known.identity != path.stat().st_ino:
            known.close()
            known = None
        self._legs[path.name] = known or Leg(path)
        return self._legs[path.name]

    def _known_legs(self) -> list[tuple[str, Leg]]:
        """Return the legs of the router namespaces that exist."""
        for name in [name for name in self._legs if not namespaces.exists(self._routers / name)]:
            self._legs.pop(name).close()
        return [(name, self._leg(self._routers / name)) for name in list(self._legs)]

    def _forget(self, name: str, leg: Leg) -> None:
        leg.allow((), ())  # ends its connections
        leg.remove()
        self._legs.pop(name).close()

    def _remove_all(self) -> None:
        """Remove everything. State of an earlier process is found by its namespace."""
        self.state_sync.stop_now()  # before its namespace goes, which the process would keep alive
        if self._egress is None and not self._path.parent.exists():
            return
        for path in self._routers.iterdir() if self._routers.exists() else ():
            if namespaces.exists(path):
                self._forget(path.name, self._leg(path))
        self._host().remove_admission()
        if self._egress is not None or namespaces.exists(self._path):
            egress = self._egress_namespace()
            self._egress = None  # closed even if the removal fails
            egress.remove()
        self._path.unlink(missing_ok=True)  # a file without a namespace is left by a killed process
        self._path.parent.rmdir()


def _valid(parts: Iterable[T], check: Callable[[T], None], failures: Failures, name: Callable[[T], str]) -> Iterator[T]:
    for each in parts:
        try:
            check(each)
        except ValueError as fault:
            failures[name(each)] = fault
        else:
            yield each


def _by_network(forwardings: Iterable[Forwarding]) -> dict[str, list[Forwarding]]:
    """Group by the name of the router namespace."""
    found: dict[str, list[Forwarding]] = {}
    for each in forwardings:
        for network in each.networks:
            found.setdefault(network, []).append(each)
    return {router_name(network): own for network, own in found.items()}


def _in(forwarding: Forwarding, router: str) -> Parts:
    """Return the part of an ExternalService in one Network."""
    own = {network for network in forwarding.networks if router_name(network) == router}
    return (
        [each for each in forwarding.departures if each.network in own],
        [each for each in forwarding.arrivals if each.network in own],
    )


def _transits(forwardings: Iterable[Forwarding], sources: Iterable[SourceAddress]) -> dict[str, tuple[str, int]]:
    """Return the leg and the SourceIP's mark of each transit address."""
    marks = {each.address: each.mark for each in sources}
    found: dict[str, tuple[str, int]] = {}
    for each in forwardings:
        for way in each.ways:
            if way.transit not in found and way.source in marks:
                found[way.transit] = leg_name(router_name(way.network)), marks[way.source]
    return found


def _senders(state: EgressState) -> set[Sender]:
    ways = (way for each in state.sources for way in (*each.exits, *each.entrances))
    found = {(way.node, way.transit) for way in ways if way.node != state.node_address}
    return found | ({(state.partner, node_marks(state.partner)[1])} if state.partner else set())


def _answerers(state: EgressState) -> set[Answerer]:
    candidates: Mapping[str, SourceAddress] = {each.address: each for each in state.sources}
    return {
        (gateway, way.target, way.transit)
        for each in state.forwardings
        for way in each.ways
        if way.source in candidates
        for gateway in candidates[way.source].candidates
        if gateway != state.node_address
    }
