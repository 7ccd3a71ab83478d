"""Tells each ExternalService that nothing carries it out, for as long as that is so.

Who carries them out makes Gateways, so where there is a Gateway the status is somebody else's and is left alone. The
object is kept and valid meanwhile; it has no address, since none would lead anywhere.
"""

from __future__ import annotations

from tarmac.api.submariner.externalservice import ExternalService, ExternalServiceStatus
from tarmac.api.submariner.names import API_VERSION
from tarmac.client.events import InvolvedObject
from tarmac.client.targets.target import declared
from tarmac.client.targets.untyped import GATEWAYS
from tarmac.controllers.context import Context
from tarmac.controllers.writing import write_status
from tarmac.decide import reasons
from tarmac.decide.rollup import Finding, merge

MANAGER = "tarmac-externalservice"
EXTERNAL_SERVICES = declared(ExternalService, API_VERSION, "externalservices")
_MESSAGE = "Nothing carries out ExternalServices here: there is no gateway, so the server is not reached through it."
_UNREADY = Finding("Ready", "False", reasons.NO_GATEWAY, _MESSAGE)


class ExternalServiceController:
    """Reconciles by the ExternalService's key."""

    def __init__(self, context: Context) -> None:
        self._clock, self._recorder = context.client.clock, context.recorder
        self._resource = context.client.resource(EXTERNAL_SERVICES.unread)
        self._known = context.informers.informer(EXTERNAL_SERVICES)
        self._gateways = context.informers.informer(GATEWAYS)
        self._controller = context.controller("externalservice", self.reconcile)
        self._controller.watches(self._known)
        self._controller.awaits(self._gateways)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def reconcile(self, key: str) -> None:
        """Say it of one, once."""
        known = self._known.get(key)
        if known is None or any(True for _ in self._gateways.cache.items()):
            return
        old, own = known.status or ExternalServiceStatus(), known.metadata
        conditions = merge(old.conditions, (_UNREADY,), own.generation, self._clock.now())
        status = ExternalServiceStatus(observed_generation=own.generation, conditions=conditions)
        written = await write_status(self._resource, own, known.status, status, MANAGER)
        if written is not None and not any(each.reason == reasons.NO_GATEWAY for each in old.conditions):
            about = InvolvedObject(API_VERSION, "ExternalService", own.name, own.namespace, own.uid)
            self._recorder.event(about, "Warning", reasons.NO_GATEWAY, _MESSAGE)
