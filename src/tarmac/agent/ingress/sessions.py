"""Computes the BGP sessions of a node from BGPPeers, pools, its labels and its interfaces. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from ipaddress import IPv4Address, ip_address, ip_interface
from typing import Final

from tarmac.agent.ingress.compiling import IngressObjects, LocalNode
from tarmac.agent.ingress.servicefacts import pool_ranges
from tarmac.api.ingress.addresspool import AddressPool, PoolAttributes
from tarmac.api.ingress.bgppeer import BGPPeer, BGPPeerSpec, checks_ttl, restart_seconds
from tarmac.api.ingress.names import PASSWORD_KEY, SECRET_NAMESPACE
from tarmac.base.duration import parse_duration
from tarmac.datapath.speaker import BgpSession, RoutedRanges, SpeakerState
from tarmac.decide.ingress.selecting import has_session, is_announced_to, is_gateway

_FAMILIES: Final = {"IPv4": 4, "IPv6": 6}
_BFD_INTERVAL, _BFD_MULTIPLIER = "300ms", 3


@dataclass(slots=True)
class CompiledSpeaker:
    """The desired sessions; by peer why there is none; and the peers that each pool is announced to."""

    state: SpeakerState = field(default_factory=SpeakerState)
    errors: dict[str, str] = field(default_factory=dict[str, str])
    peers: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def compile_speaker(here: LocalNode, objects: IngressObjects) -> CompiledSpeaker:
    """Compute the sessions of a node. A peer that cannot be configured is left out, and says why."""
    found, sessions = CompiledSpeaker(), list[BgpSession]()
    mine = {name: each for name, each in objects.pools.items() if is_gateway(each.spec, objects.node.labels)}
    for name, peer in sorted(objects.peers.items()):
        if not has_session(peer.spec, objects.node.labels):
            continue
        pools = {pool: each for pool, each in mine.items() if is_announced_to(pool, each.spec, peer.spec)}
        for pool in pools:
            found.peers.setdefault(pool, []).append(name)
        try:
            sessions.append(_session(here, peer, pools, objects.passwords))
        except ValueError as error:
            found.errors[name] = str(error)
    if sessions:
        found.state = SpeakerState(_router_id(here), tuple(sessions))
    return found


def _session(
    here: LocalNode, peer: BGPPeer, pools: Mapping[str, AddressPool], passwords: Mapping[str, str]
) -> BgpSession:
    """Return the session with a peer. Raises ValueError with the reason why there can be none."""
    spec = peer.spec
    # Parsed, also if admission has seen it: the text becomes configuration of a program.
    router = ip_address(spec.address)
    families = tuple(sorted({_FAMILIES[each] for each in spec.families} or {router.version}))
    password = passwords.get(spec.password_secret, "")
    if spec.password_secret and not password:
        raise ValueError(f"Secret {SECRET_NAMESPACE}/{spec.password_secret} has no key {PASSWORD_KEY} to read")
    bfd = spec.bfd
    return BgpSession(
        peer.metadata.name,
        str(router),
        spec.asn,
        spec.local_asn,
        families,
        tuple(_routed(pools[each], spec) for each in sorted(pools)),
        spec.port,
        str(ip_address(spec.source_address)) if spec.source_address else "",
        tuple((each, _own_address(here, str(router), each)) for each in families if each != router.version),
        password,
        int(parse_duration(spec.hold_time)),
        restart_seconds(spec),
        (parse_duration(bfd.interval or _BFD_INTERVAL), bfd.multiplier or _BFD_MULTIPLIER) if bfd else None,
        spec.multihop,
        checks_ttl(spec),
        spec.max_prefixes,
        spec.local_preference,
    )


def _routed(pool: AddressPool, peer: BGPPeerSpec) -> RoutedRanges:
    own = pool.spec.bgp or PoolAttributes()
    written = (*own.communities, *own.large_communities, *peer.communities)
    communities = dict.fromkeys(tuple(int(part) for part in each.split(":")) for each in written)
    return RoutedRanges(pool_ranges([pool]), tuple(communities), own.local_preference)


def _own_address(here: LocalNode, router: str, family: int) -> str:
    """Return this node's address of a family, best on the router's segment: the next hop of routes of that family."""
    nearest = sorted(here.interfaces.values(), key=lambda each: not _has_segment(each, router))
    for each in (*(own.partition("/")[0] for addresses in nearest for own in addresses), here.address):
        if each and ip_address(each).version == family and not ip_address(each).is_link_local:
            return each
    raise ValueError(f"the node has no IPv{family} address, which routes of that family need as their next hop")


def _has_segment(addresses: Sequence[str], router: str) -> bool:
    return any(ip_address(router) in ip_interface(each).network for each in addresses)


def _router_id(here: LocalNode) -> str:
    """Return an IPv4 address that is unique among routers: the node's own, or one derived from its name."""
    known = (here.address, *(own.partition("/")[0] for each in sorted(here.interfaces.items()) for own in each[1]))
    derived = str(IPv4Address(int.from_bytes(blake2b(here.name.encode(), digest_size=4).digest()) or 1))
    return next((each for each in known if ":" not in each and each), derived)
