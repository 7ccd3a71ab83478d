"""Writes the part of a Workload's status about its anycast addresses, and the EndpointSlices behind them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec.structs import replace

from tarmac.api.compute.names import API_VERSION, LABEL_CITY_CODE, LABEL_WORKLOAD_UID
from tarmac.api.compute.workload import Workload, WorkloadStatus
from tarmac.api.conditions import is_true
from tarmac.api.declare import Time
from tarmac.api.ingress.names import LABEL_ADDRESS
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.api.networking.names import LABEL_ZONE
from tarmac.api.partial import PartialMetadata
from tarmac.api.schema import JsonObject
from tarmac.api.shared import IPFamily
from tarmac.base.clock import rfc3339
from tarmac.client.cache import Item
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.endpointslices import LABEL_MANAGED_BY, DesiredSlice, is_managed, write_slices
from tarmac.controllers.ingress.caches import BY_WORKLOAD, MANAGER, IngressCaches
from tarmac.controllers.ingress.claims import IngressClaimLoop
from tarmac.controllers.writes import write_status
from tarmac.decide import reasons
from tarmac.decide.endpoints import EndpointPod, Grouping, ServiceFacts
from tarmac.decide.endpoints.servicefacts import SelectedPort, ServiceSpec
from tarmac.decide.ingress.addressclaims import IngressClaim, declared_ports, holder_key
from tarmac.decide.ingress.announcing import Report, anycast_cities, anycast_finding, reports
from tarmac.decide.ingress.binding import holders, phase_of
from tarmac.decide.ingress.pools import speakers
from tarmac.decide.pooled.pool import RESTING
from tarmac.decide.rollup import Finding, merge

READY = "AnycastReady"
MANAGED_BY = "ingress-controller.datumapis.com"
_DEBOUNCE = 0.1

_read_pod = msgspec.json.Decoder(EndpointPod).decode


class WorkloadStatusLoop:
    """Reconciles by namespace/name of the Workload."""

    def __init__(self, context: ControllerContext, caches: IngressCaches, claims: IngressClaimLoop) -> None:
        self._caches, self._claims = caches, claims
        self.controller = context.controller("anycast", self.reconcile)
        self.controller.watches(caches.workloads)
        self.controller.watches(caches.known_addresses, workloads_of, after=_DEBOUNCE)
        self.controller.watches(caches.pods, self._workload_of_pod, after=_DEBOUNCE)
        self.controller.watches(caches.slices, _owner_of)
        caches.peers.on_change(lambda _old, _new: self._all_again())
        for informer in (caches.pools, caches.peers, caches.nodes, caches.networks, caches.namespaces):
            self.controller.awaits(informer)
        claims.on_decision(self._decided)
        caches.node_views.listeners.append(self._all_again)

    def _decided(self, key: str) -> None:
        kind, _, name = key.partition("/")
        if kind == "Workload":
            self.controller.queue.add(name)

    def _all_again(self) -> None:
        for claim in self._caches.claims.values():
            if claim.kind == "Workload":
                self.controller.queue.add_after(f"{claim.namespace}/{claim.name}", 1.0)

    def _workload_of_pod(self, item: Item[Any]) -> list[str]:
        """Return the Workload of a Pod if it has addresses to announce."""
        name = (item.metadata.labels or {}).get("compute.datumapis.com/workload-name", "")
        known = holder_key("Workload", item.metadata.namespace, name) in self._caches.claims
        return [f"{item.metadata.namespace}/{name}"] if known else []

    async def reconcile(self, key: str) -> None:
        """Write slices and status of one Workload."""
        workload = self._caches.workloads.get(key)
        if workload is None:
            return  # its slices go with it
        own = workload.metadata
        claim = self._caches.claims.get(holder_key("Workload", own.namespace, own.name))
        held = self._caches.held_by(own.uid) if claim is not None else []
        addresses = [each for each in held if phase_of(each) not in RESTING]
        # The slices first: gateways announce only addresses that lead somewhere.
        await self._write_slices(workload, addresses)
        if claim is not None:
            await self._write_status(workload, claim, addresses)
        elif workload.status is not None:
            await self._clear(workload, workload.status)

    async def _write_slices(self, workload: Workload, addresses: list[PublicAddress]) -> None:
        own, caches = workload.metadata, self._caches
        items = caches.slices.indexed(BY_WORKLOAD, own.uid)
        present = {each.metadata.name: each for each in items if is_managed(each, MANAGED_BY)}
        if not addresses and not present:
            return
        by_family: dict[IPFamily, str] = {
            "IPv6" if ":" in each.spec.address else "IPv4": each.metadata.name for each in addresses
        }
        facts = _facts(workload, sorted(by_family))
        grouping = Grouping(facts, self._zones())
        for item in caches.pods.indexed(BY_WORKLOAD, own.uid):
            if item.metadata.namespace == own.namespace:
                grouping.add(_read_pod(item.raw))

        def document(wanted: DesiredSlice) -> JsonObject:
            return _slice(wanted, own.uid, by_family[wanted.group.family])

        await write_slices(caches.slice_resource, caches.runner, facts, grouping.groups(), present, document)

    def _zones(self) -> dict[str, str]:
        views = self._caches.node_views.views
        return {name: view.labels[LABEL_ZONE] for name, view in views.items() if LABEL_ZONE in view.labels}

    async def _write_status(self, workload: Workload, claim: IngressClaim, addresses: list[PublicAddress]) -> None:
        caches, own, old = self._caches, workload.metadata, workload.status or WorkloadStatus()
        found = {each.spec.address: self._reports(each) for each in addresses}
        now = caches.clock.now()
        every = [each for one in found.values() for each in one]
        cities = anycast_cities(self._instances(own.uid), every, old.anycast, Time(rfc3339(now)))
        refusals = self._claims.refusals.get(claim.key, ())
        finding = anycast_finding(refusals, addresses, cities, peers=self._has_peers(addresses))
        announced = [address for address, reported in found.items() if any(each.entry.announcing for each in reported)]
        status = replace(
            old,
            anycast_addresses=sorted(announced, key=lambda each: (":" in each, each)),
            anycast=cities if addresses else [],
            conditions=merge(old.conditions, [finding], own.generation, now),
        )
        if await write_status(caches.workload_resource, own, workload.status, status, MANAGER) is not None:
            self._record(workload, old, finding, addresses)

    def _reports(self, address: PublicAddress) -> list[Report]:
        return reports(address, self._caches.pools.get(address.spec.pool_name), self._caches.node_views.views)

    def _instances(self, uid: str) -> Counter[str]:
        """Count the ready Pods of a Workload by city."""
        found: Counter[str] = Counter()
        for item in self._caches.pods.indexed(BY_WORKLOAD, uid):
            if item.metadata.deletion_timestamp is None and is_true(item.object, "Ready"):
                found[(item.metadata.labels or {}).get(LABEL_CITY_CODE, "")] += 1
        return found

    def _has_peers(self, addresses: list[PublicAddress]) -> bool:
        caches = self._caches
        pool = caches.pools.get(addresses[0].spec.pool_name) if addresses else None
        peers = [item.object for item in caches.peers.cache.items()]
        return pool is not None and bool(speakers(pool, peers, caches.node_views.views))

    async def _clear(self, workload: Workload, old: WorkloadStatus) -> None:
        """Remove what earlier passes wrote: the annotation is gone."""
        kept = [each for each in old.conditions if each.type != READY]
        status = replace(old, anycast_addresses=[], anycast=[], conditions=kept)
        await write_status(self._caches.workload_resource, workload.metadata, workload.status, status, MANAGER)

    def _record(
        self, workload: Workload, old: WorkloadStatus, finding: Finding, addresses: list[PublicAddress]
    ) -> None:
        own, before = workload.metadata, next((each for each in old.conditions if each.type == READY), None)
        if before is not None and (before.status, before.reason) == (finding.status, finding.reason):
            return
        about = InvolvedObject(API_VERSION, "Workload", own.name, own.namespace, own.uid)
        if finding.holds:
            self._caches.recorder.event(about, "Normal", finding.reason, finding.message)
        elif before is not None and before.status == "True":
            self._caches.recorder.event(about, "Warning", reasons.WITHDRAWN, finding.message)
        elif not addresses:
            self._caches.recorder.event(about, "Warning", finding.reason, finding.message)


def workloads_of(item: Item[PublicAddress]) -> list[str]:
    """Return the key of the Workload that holds an address."""
    return [f"{each.namespace}/{each.name}" for each in holders(item.object) if each.kind == "Workload"]


def _owner_of(item: Item[Any]) -> list[str]:
    owner = item.metadata.controller
    ours = owner is not None and owner.kind == "Workload"
    return [f"{item.metadata.namespace}/{owner.name}"] if ours and owner is not None else []


def _facts(workload: Workload, families: list[IPFamily]) -> ServiceFacts:
    """Return a Workload as endpoints of a Service at every declared port."""
    own = workload.metadata
    ports = [
        SelectedPort(port, f"{name}-{protocol.lower()}-{port}"[-63:], protocol, port)
        for (protocol, port), name in sorted(declared_ports(workload).items())
    ]
    spec = ServiceSpec(selector={LABEL_WORKLOAD_UID: own.uid}, ports=ports, ip_families=families)
    return ServiceFacts(PartialMetadata(own.name, own.namespace, own.uid), spec)


def _slice(wanted: DesiredSlice, uid: str, address: str) -> JsonObject:
    own, group = wanted.service.metadata, wanted.group
    owner = {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "name": own.name,
        "uid": own.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = {LABEL_ADDRESS: address, LABEL_WORKLOAD_UID: uid, LABEL_MANAGED_BY: MANAGED_BY}
    network = {"networking.datumapis.com/network": group.network} if group.network else {}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": wanted.name,
            "namespace": own.namespace,
            "labels": labels,
            "annotations": network,
            "ownerReferences": [owner],
        },
        "addressType": group.family,
        "endpoints": list(wanted.endpoints),
        "ports": [port.document() for port in group.ports],
    }
