"""Mirrors Endpoints of Services without a selector into EndpointSlices, which the data path reads.

The slices carry the labels and annotations of the Endpoints, so an annotation that names a Network applies to them too,
and are owned by it. They are deleted with it, when it declines mirroring, and when its Service is deleted or gets a
selector. Service and Endpoints share one key. Endpoints of Services with a selector change all the time; each change
costs only a look at the Service.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.api.status import Invalid
from tarmac.client.cache import Item
from tarmac.client.controller import TerminalError
from tarmac.client.envelope import reference_to
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.client.targets.untyped import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.endpointslices import (
    BY_SERVICE,
    LABEL_MANAGED_BY,
    LABEL_SERVICE,
    is_managed,
    name_of,
    remove_slices,
    service_of,
    write_slice,
)
from tarmac.decide import reasons
from tarmac.decide.endpoints import EndpointGroup, EndpointsFacts, Mirrors, ServiceFacts, mirrors
from tarmac.decide.endpoints.endpointsbuilder import TRIGGER_TIME
from tarmac.decide.endpoints.mirrors import OF_A_SUBSET

MANAGED_BY = "endpointslicemirroring-controller.k8s.io"
_MANAGER = "tarmac-endpointslicemirroring"
_NOT_MIRRORED = (TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration")

_read_endpoints = msgspec.json.Decoder(EndpointsFacts).decode
_read_service = msgspec.json.Decoder(ServiceFacts).decode


class MirroringController:
    """Reconciles by the key of Service and Endpoints."""

    def __init__(self, context: ControllerContext) -> None:
        informers = context.informers
        self._recorder = context.recorder
        self._runner = context.client.runner
        self._slices = context.client.resource(ENDPOINT_SLICES)
        self._services = informers.informer(SERVICES)
        self._endpoints = informers.informer(ENDPOINTS)
        self._known = informers.informer(ENDPOINT_SLICES)
        self._known.add_index(BY_SERVICE, service_of)
        self._controller = context.controller("endpointslicemirroring", self.reconcile)
        self._controller.watches(self._services)
        self._controller.watches(self._endpoints)
        self._controller.watches(self._known, _mirrored_for)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def reconcile(self, key: str) -> None:
        """Write or delete the mirrors of one object."""
        present = {each.metadata.name: each for each in self._known.indexed(BY_SERVICE, key) if _is_mirror(each)}
        item = self._endpoints.cache.item(key)
        # With a selector, slices are written from the pods: mirrors beside them would list every endpoint twice.
        if item is None or not self._awaits_endpoints(key):
            await remove_slices(self._slices, list(present.values()))
            return
        if item.metadata.deletion_timestamp is None:  # else its slices go with it
            await self._mirror(item, present)

    def _awaits_endpoints(self, key: str) -> bool:
        """Return True if the Service exists and has no selector, so that users write its Endpoints."""
        service = self._services.cache.item(key)
        return service is not None and not _read_service(service.raw).spec.selector

    async def _mirror(self, item: Item[Any], present: dict[str, Item[Any]]) -> None:
        endpoints = _read_endpoints(item.raw)
        found = await self._runner.done(mirrors(endpoints)) if endpoints.mirrored else Mirrors({}, 0)
        wanted = {name_of(item.metadata.name, item.metadata.uid, group): group for group in found.slices}
        written = False
        for name, group in wanted.items():
            document = _document(item, name, group, found.slices[group])
            try:
                written |= await write_slice(self._slices, document, present.get(name), _MANAGER, exactly=True)
            except Invalid as refusal:  # for example ports with the same name, which Endpoints may have
                raise TerminalError(f"cannot be mirrored: {refusal}") from refusal
            await asyncio.sleep(0)
        # Last: the old mirrors serve until the new ones exist.
        await remove_slices(self._slices, [each for name, each in present.items() if name not in wanted])
        if written and found.skipped:
            self._warn_of_skipped(item, found.skipped)

    def _warn_of_skipped(self, item: Item[Any], skipped: int) -> None:
        own = item.metadata
        about = InvolvedObject("v1", "Endpoints", own.name, own.namespace, own.uid)
        most = f"A max of {OF_A_SUBSET} addresses can be mirrored to EndpointSlices per Endpoints subset."
        message = f"{most} {skipped} addresses were skipped"
        self._recorder.event(about, "Warning", reasons.TOO_MANY_ADDRESSES_TO_MIRROR, message)


def _document(item: Item[Any], name: str, group: EndpointGroup, endpoints: list[JsonObject]) -> JsonObject:
    own = item.metadata
    annotations = {key: text for key, text in (own.annotations or {}).items() if key not in _NOT_MIRRORED}
    return {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": ENDPOINT_SLICES.kind,
        "metadata": {
            "name": name,
            "namespace": own.namespace,
            "labels": {**(own.labels or {}), LABEL_SERVICE: own.name, LABEL_MANAGED_BY: MANAGED_BY},
            "annotations": annotations,
            "ownerReferences": [reference_to("v1", "Endpoints", own)],
        },
        "addressType": group.family,
        "endpoints": endpoints,
        "ports": [port.document() for port in group.ports],
    }


def _is_mirror(item: Item[Any]) -> bool:
    return is_managed(item, MANAGED_BY)


def _mirrored_for(item: Item[Any]) -> tuple[str, ...]:
    return service_of(item) if _is_mirror(item) else ()
