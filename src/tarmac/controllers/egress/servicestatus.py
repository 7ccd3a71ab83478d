"""Status and events of an ExternalService."""

from __future__ import annotations

from tarmac.api.egress.externalservice import ExternalServiceStatus
from tarmac.api.egress.forwarding import Forwarder
from tarmac.api.egress.names import API_VERSION
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.controllers.egress.cachedmodel import CachedEgressModel
from tarmac.controllers.egress.caches import MANAGER, EgressCaches
from tarmac.controllers.writes import write_status
from tarmac.decide import reasons
from tarmac.decide.egress.compiling import Compiled
from tarmac.decide.egress.observing import observe
from tarmac.decide.egress.sources import Resolution
from tarmac.decide.egress.status import roll_up
from tarmac.decide.rollup import Finding, merge

_EVENT_REASONS = (reasons.AMBIGUOUS_SOURCE, reasons.INBOUND_CONFLICT)


class ServiceStatus:
    """Writes the status."""

    def __init__(self, caches: EgressCaches, model: CachedEgressModel) -> None:
        self._caches, self._model = caches, model

    async def write(self, found: Resolution, made: Compiled, dialled: str, forwarders: list[Forwarder]) -> None:
        """Write the fields that differ, and record events for changes that concern users."""
        service, own = found.service, found.service.metadata
        seen = observe(found, {each.spec.node_name: each for each in forwarders}, self._model)
        status, findings = roll_up(found, made, dialled, seen)
        old = service.status or ExternalServiceStatus()
        status.conditions = merge(old.conditions, findings, own.generation, self._caches.clock.now())
        written = await write_status(self._caches.service_resource, own, service.status, status, MANAGER)
        # Only after a write: a pass that is repeated would record its events again.
        if written is not None:
            about = InvolvedObject(API_VERSION, "ExternalService", own.name, own.namespace, own.uid)
            self._record_sources(about, old, status)
            self._record_readiness(about, old, findings)

    def _record_sources(self, about: InvolvedObject, old: ExternalServiceStatus, new: ExternalServiceStatus) -> None:
        """Record one event per refused source and reason. The source may be refused in part."""
        known = {(each.service.namespace, each.service.name, each.reason) for each in old.sources}
        for each in new.sources:
            if each.reason and (each.service.namespace, each.service.name, each.reason) not in known:
                reason = each.reason if each.reason in _EVENT_REASONS else "SourceRefused"
                self._caches.recorder.event(about, "Warning", reason, each.message)

    def _record_readiness(self, about: InvolvedObject, old: ExternalServiceStatus, findings: list[Finding]) -> None:
        """Record an event when Ready changes, and when the reason for not being ready changes."""
        ready = next(each for each in findings if each.type == "Ready")
        known = next((each for each in old.conditions if each.type == "Ready"), None)
        if known is not None and (known.status, known.reason) == (ready.status, ready.reason):
            return
        if ready.holds:
            self._caches.recorder.event(about, "Normal", "Ready", ready.message)
        else:
            self._caches.recorder.event(about, "Warning", "NotReady", f"{ready.reason}: {ready.message}")
