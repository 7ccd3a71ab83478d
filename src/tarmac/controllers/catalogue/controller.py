"""Keeps the catalogues of instance types and machine images: entries, their status, and deletion only while unused.

A missing built-in entry is created; an existing one belongs to the operator and may be deprecated. An entry is used by
the Workloads that name it and by their deployments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from tarmac.api.compute.instance import InstanceTemplateSpec
from tarmac.api.compute.instancetype import InstanceType, built_in, object_name
from tarmac.api.compute.machineimage import MachineImage, built_in_images, image_object_name, is_local
from tarmac.api.compute.names import IMAGE_FINALIZER, TYPE_FINALIZER
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists
from tarmac.client.cache import Item
from tarmac.client.targets.target import Target
from tarmac.client.targets.typed import DEPLOYMENTS, INSTANCE_TYPES, MACHINE_IMAGES, WORKLOADS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.finalizers import hold
from tarmac.controllers.writes import write_status
from tarmac.decide.instancetypes import type_status
from tarmac.decide.machineimages import image_status, images_named_by

K = TypeVar("K", bound=Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinCatalogue(Generic[K]):
    """One kind of entries.

    `named_by` returns the objects that a template names, `status_of` an entry's current status.
    """

    name: str
    target: Target[K]
    finalizer: str
    built_in: Iterable[JsonObject]
    named_by: Callable[[InstanceTemplateSpec], Iterable[str]]
    status_of: Callable[[K, float], msgspec.Struct]


class CatalogueController(Generic[K]):
    """Reconciles by the entry's name."""

    def __init__(self, context: ControllerContext, catalogue: BuiltinCatalogue[K]) -> None:
        informers = context.informers
        self._catalogue = catalogue
        self._manager = f"tarmac-{catalogue.name}"
        self._clock = context.client.clock
        self._resource = context.client.resource(catalogue.target.unread)
        self._known = informers.informer(catalogue.target)
        self._users = (informers.informer(WORKLOADS), informers.informer(DEPLOYMENTS))
        self._built_in = {each["metadata"]["name"]: each for each in catalogue.built_in}
        self._controller = context.controller(catalogue.name, self.reconcile)
        self._controller.watches(self._known)
        for informer in self._users:
            informer.add_index(catalogue.name, self._named)
            self._controller.watches(informer, self._being_deleted)

    async def run(self) -> None:
        """Work until cancelled."""
        # Missing entries are reported by no watch.
        for name in self._built_in:
            self._controller.queue.add(name)
        await self._controller.run()

    def _being_deleted(self, user: Item[Any]) -> list[str]:
        """Return the entries in deletion that the object uses; for other entries, users do not matter."""
        items = [self._known.cache.item(name) for name in self._named(user)]
        return [item.key for item in items if item is not None and item.metadata.deletion_timestamp is not None]

    async def reconcile(self, name: str) -> None:
        """Create a missing built-in entry, or write one entry's finalizer and status."""
        known = self._known.get(name)
        if known is None:
            await self._restore(name)
        # A write of the finalizer changes the version. The status follows in the pass that this change starts.
        elif not await hold(self._resource, known.metadata, self._catalogue.finalizer, used=self._is_used(name)):
            status = self._catalogue.status_of(known, self._clock.now())
            await write_status(self._resource, known.metadata, known.status, status, self._manager)

    async def _restore(self, name: str) -> None:
        body = self._built_in.get(name)
        if body is not None:
            try:
                await self._resource.create(body, manager=self._manager)
            except AlreadyExists:
                return  # the cache is behind

    def _is_used(self, name: str) -> bool:
        return any(informer.indexed(self._catalogue.name, name) for informer in self._users)

    def _named(self, item: Item[Any]) -> tuple[str, ...]:
        try:
            return tuple(self._catalogue.named_by(item.object.spec.template.spec))
        except msgspec.ValidationError:
            return ()  # a server without our kinds does not validate them, so some cannot be decoded


class InstanceTypeController(CatalogueController[InstanceType]):
    """Reconciles by the type's name."""

    def __init__(self, context: ControllerContext) -> None:
        catalogue = BuiltinCatalogue(
            name="instancetype",
            target=INSTANCE_TYPES,
            finalizer=TYPE_FINALIZER,
            built_in=built_in(),
            named_by=_type_of,
            status_of=type_status,
        )
        super().__init__(context, catalogue)


def _type_of(spec: InstanceTemplateSpec) -> tuple[str, ...]:
    return (object_name(spec.runtime.resources.instance_type),)


class MachineImageController(CatalogueController[MachineImage]):
    """Reconciles by the image's name."""

    def __init__(self, context: ControllerContext) -> None:
        catalogue = BuiltinCatalogue(
            name="machineimage",
            target=MACHINE_IMAGES,
            finalizer=IMAGE_FINALIZER,
            built_in=built_in_images(),
            named_by=_images_of,
            status_of=image_status,
        )
        super().__init__(context, catalogue)


def _images_of(spec: InstanceTemplateSpec) -> list[str]:
    return [image_object_name(name) for name in images_named_by(spec) if not is_local(name)]
