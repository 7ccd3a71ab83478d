"""Reconciles AddressPools (use, readiness, a finalizer while in use) and BGPPeers (sessions)."""

from __future__ import annotations

from msgspec.structs import replace

from tarmac.api.ingress.addresspool import AddressPoolStatus
from tarmac.api.ingress.bgppeer import BGPPeerStatus
from tarmac.api.ingress.names import API_VERSION, POOL_FINALIZER
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.finalizers import hold
from tarmac.controllers.ingress.caches import BY_POOL, MANAGER, IngressCaches
from tarmac.controllers.writes import write_status
from tarmac.decide.ingress.binding import range_owner
from tarmac.decide.ingress.pools import current_sessions, is_in_use, peer_finding, pool_findings, pool_summary
from tarmac.decide.pooled.overlap import overlapped_by_older
from tarmac.decide.pooled.ranges import Ranges
from tarmac.decide.rollup import merge

_DEBOUNCE = 1.0  # many addresses of a pool change together


class AddressPoolLoop:
    """Reconciles by the name of the pool."""

    def __init__(self, context: ControllerContext, caches: IngressCaches) -> None:
        self._caches = caches
        self.controller = context.controller("address-pools", self.reconcile, workers=1)
        self.controller.watches(caches.pools)
        self.controller.watches(caches.known_addresses, lambda item: (item.object.spec.pool_name,), after=_DEBOUNCE)
        for informer in (caches.nodes, caches.peers):
            self.controller.awaits(informer)
        caches.node_views.listeners.append(self._all_again)
        caches.peers.on_change(lambda _old, _new: self._all_again())

    def _all_again(self) -> None:
        for name in self._caches.pools.cache.keys():  # noqa: SIM118 no mapping
            self.controller.queue.add_after(name, _DEBOUNCE)

    async def reconcile(self, name: str) -> None:
        """Write the finalizer and the status of one pool."""
        caches, pool = self._caches, self._caches.pools.get(name)
        if pool is None:
            return
        mine = [each for each in caches.addresses.indexed(BY_POOL, name) if each.spec.pool_name == name]
        # The finalizer's write changes the version. The status follows in the pass that this change starts.
        if await hold(caches.pool_resource, pool.metadata, POOL_FINALIZER, used=is_in_use(mine)):
            return
        others = (range_owner(item.object) for item in caches.pools.cache.items())
        overlap = overlapped_by_older(range_owner(pool), others)
        peers = [item.object for item in caches.peers.cache.items()]
        findings = pool_findings(pool, overlap, peers, caches.node_views.views)
        own, old = pool.metadata, pool.status or AddressPoolStatus()
        status = AddressPoolStatus(
            observed_generation=own.generation,
            conditions=merge(old.conditions, findings, own.generation, caches.clock.now()),
            summary=pool_summary(pool, Ranges(pool.spec, caches.interfaces()), mine),
        )
        await write_status(caches.pool_resource, own, pool.status, status, MANAGER)


class PeerLoop:
    """Reconciles by the name of the BGPPeer."""

    def __init__(self, context: ControllerContext, caches: IngressCaches) -> None:
        self._caches = caches
        self.controller = context.controller("bgp-peers", self.reconcile, workers=1)
        self.controller.watches(caches.peers)
        self.controller.awaits(caches.nodes)
        caches.node_views.listeners.append(self._all_again)

    def _all_again(self) -> None:
        for name in self._caches.peers.cache.keys():  # noqa: SIM118 no mapping
            self.controller.queue.add_after(name, _DEBOUNCE)

    async def reconcile(self, name: str) -> None:
        """Write the status of one peer."""
        caches, peer = self._caches, self._caches.peers.get(name)
        if peer is None:
            return
        own, old, views = peer.metadata, peer.status or BGPPeerStatus(), caches.node_views.views
        finding = peer_finding(peer, views)
        before = next((each.status for each in old.conditions if each.type == "Established"), "")
        status = replace(
            old,
            observed_generation=own.generation,
            conditions=merge(old.conditions, [finding], own.generation, caches.clock.now()),
            nodes=current_sessions(peer, views),
        )
        written = await write_status(caches.peer_resource, own, peer.status, status, MANAGER)
        if written is not None and before not in ("", finding.status):
            about = InvolvedObject(API_VERSION, "BGPPeer", own.name, "", own.uid)
            event = ("Normal", "SessionUp") if finding.holds else ("Warning", "SessionDown")
            caches.recorder.event(about, *event, finding.message)
