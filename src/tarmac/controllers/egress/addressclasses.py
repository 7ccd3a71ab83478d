"""Reconciles SourceIPClasses: address counts, whether nodes can carry them, and a finalizer while they are in use."""

from __future__ import annotations

from tarmac.api.egress.addressrules import bounds_of
from tarmac.api.egress.names import CLASS_FINALIZER
from tarmac.api.egress.sourceip import SourceIPClassStatus
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.egress.caches import BY_CLASS, MANAGER, EgressCaches
from tarmac.controllers.finalizers import hold
from tarmac.controllers.writes import write_status
from tarmac.decide.egress.addressclasses import class_findings, is_in_use, overlapped_by, pools, summary
from tarmac.decide.pooled.ranges import Ranges
from tarmac.decide.rollup import merge

_DEBOUNCE = 1.0  # many addresses of a class change together


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
