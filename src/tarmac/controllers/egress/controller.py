"""Runs the loops of external services over shared caches."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Final

from tarmac.api.conditions import holds
from tarmac.api.egress.addressrules import bounds_of
from tarmac.api.egress.names import CLASS_FINALIZER
from tarmac.api.egress.sourceip import SourceIPClassStatus
from tarmac.base.metrics import Family, Histogram, counted
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.egress.addresses import AddressLoop
from tarmac.controllers.egress.cachedmodel import CachedEgressModel
from tarmac.controllers.egress.caches import BY_CLASS, MANAGER, EgressCaches
from tarmac.controllers.egress.claims import ClaimLoop
from tarmac.controllers.egress.gateways import GatewayLoop
from tarmac.controllers.egress.services import ServiceLoop
from tarmac.controllers.finalizers import hold
from tarmac.controllers.writes import write_status
from tarmac.decide.egress.addressclasses import class_findings, is_in_use, overlapped_by, pools, summary
from tarmac.decide.egress.claims import phase_of
from tarmac.decide.pooled.ranges import Ranges
from tarmac.decide.rollup import merge

_DEBOUNCE = 1.0  # many addresses of a class change together

_BOUNDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0)


class EgressMetrics:
    """Metrics of the loops of one process. The claim loop observes the histogram of binding times."""

    def __init__(self, caches: EgressCaches) -> None:
        self._caches = caches
        self.bound = Histogram(_BOUNDS)

    def families(self) -> Iterator[Family]:
        """Yield the metric families; called at each scrape."""
        yield counted(
            "tarmac_sourceip_addresses", "Addresses by state.", ("class", "family", "state"), self._addresses()
        )
        yield counted("tarmac_sourceip_claims", "Claims by phase.", ("class", "phase", "reason"), self._claims())
        name = "tarmac_sourceip_bind_seconds"
        yield name, "histogram", "Seconds from a claim's creation until it was bound.", self.bound.samples(name, [])
        yield counted("tarmac_externalservices", "ExternalServices.", ("ready",), self._services())

    def _addresses(self) -> Counter[tuple[str, ...]]:
        every = (item.object for item in self._caches.known_source_ips.cache.items())
        return Counter(
            (each.spec.class_name, "IPv6" if ":" in each.spec.address else "IPv4", phase_of(each)) for each in every
        )

    def _claims(self) -> Counter[tuple[str, ...]]:
        found: Counter[tuple[str, ...]] = Counter()
        for claim in (item.object for item in self._caches.claims.cache.items()):
            status = claim.status
            bound = [each.reason for each in (status.conditions if status is not None else ()) if each.type == "Bound"]
            phase = (status.phase if status is not None else None) or "Pending"
            found[claim.spec.class_name, phase, bound[0] if bound else ""] += 1
        return found

    def _services(self) -> Counter[tuple[str, ...]]:
        every = (item.object.status for item in self._caches.services.cache.items())
        ready = (each is not None and holds(each.conditions, "Ready") for each in every)
        return Counter(("true" if each else "false",) for each in ready)


class AddressClassLoop:
    """Reconciles by the name of the class."""

    def __init__(self, context: ControllerContext, caches: EgressCaches) -> None:
        self._caches = caches
        self.controller = context.controller("source-ip-classes", self.reconcile, workers=1)
        self.controller.watches(caches.classes)
        self.controller.watches(caches.known_source_ips, lambda item: (item.object.spec.class_name,), after=_DEBOUNCE)
        self.controller.awaits(caches.nodes)
        caches.node_views.listeners.append(self._nodes_changed)

    def _nodes_changed(self) -> None:
        for name in self._caches.classes.cache.keys():  # noqa: SIM118 no mapping
            self.controller.queue.add_after(name, _DEBOUNCE)

    async def reconcile(self, name: str) -> None:
        """Write the finalizer and the status of one class."""
        offered = self._caches.classes.get(name)
        if offered is None:
            return
        mine = [each for each in self._caches.source_ips.indexed(BY_CLASS, name) if each.spec.class_name == name]
        own, old = offered.metadata, offered.status or SourceIPClassStatus()
        # The finalizer's write changes the version. The status follows in the pass that this change starts.
        if await hold(self._caches.class_resource, own, CLASS_FINALIZER, used=is_in_use(mine)):
            return
        families = {bounds_of(each).family for each in offered.spec.ranges}
        use = pools(Ranges(offered.spec, self._caches.node_views.addresses), mine, families)
        overlap = overlapped_by(offered, (item.object for item in self._caches.classes.cache.items()))
        findings = class_findings(offered, overlap, list(self._caches.node_views.views.values()))
        status = SourceIPClassStatus(
            observed_generation=own.generation,
            conditions=merge(old.conditions, findings, own.generation, self._caches.clock.now()),
            pools=use,
            summary=summary(use),
        )
        await write_status(self._caches.class_resource, own, offered.status, status, MANAGER)


class EgressController:
    """Reconciles claims by class; addresses, classes and Gateways by name; ExternalServices by key."""

    def __init__(self, context: ControllerContext) -> None:
        caches = EgressCaches(context)
        model = CachedEgressModel(context, caches)
        gateways = GatewayLoop(context, caches, model)
        services = ServiceLoop(context, caches, model, gateways)
        egress_metrics = EgressMetrics(caches)
        context.metrics.others.append(egress_metrics.families)
        self._loops = (
            ClaimLoop(context, caches, model, egress_metrics.bound),
            AddressLoop(context, caches),
            AddressClassLoop(context, caches),
            gateways,
            services,
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for loop in self._loops:
                group.create_task(loop.controller.run())
