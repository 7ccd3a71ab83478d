"""Keeps the built-in catalogue, tells each InstanceType how it is, and keeps one that is deleted while it is used.

A built-in type that is missing is made; one that is there belongs to whoever runs the platform, who may deprecate it. A
type is used by the Workloads that name it and by their deployments.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.compute.instancetype import built_in, object_name
from tarmac.api.compute.names import TYPE_FINALIZER
from tarmac.api.status import AlreadyExists
from tarmac.client.cache import Item
from tarmac.client.targets.typed import DEPLOYMENTS, INSTANCE_TYPES, WORKLOADS
from tarmac.controllers.context import Context
from tarmac.controllers.finalizers import hold
from tarmac.controllers.writing import write_status
from tarmac.decide.instancetypes import type_status

MANAGER = "tarmac-instancetype"
BY_TYPE = "instancetype"


class InstanceTypeController:
    """Reconciles by the type's name."""

    def __init__(self, context: Context) -> None:
        informers = context.informers
        self._clock = context.client.clock
        self._resource = context.client.resource(INSTANCE_TYPES.unread)
        self._known = informers.informer(INSTANCE_TYPES)
        self._users = (informers.informer(WORKLOADS), informers.informer(DEPLOYMENTS))
        self._built_in = {each["metadata"]["name"]: each for each in built_in()}
        self._controller = context.controller("instancetype", self.reconcile)
        self._controller.watches(self._known)
        for informer in self._users:
            informer.add_index(BY_TYPE, _type_of)
            self._controller.watches(informer, self._going)

    async def run(self) -> None:
        """Work until cancelled."""
        for name in self._built_in:
            self._controller.queue.add(name)
        await self._controller.run()

    def _going(self, user: Item[Any]) -> list[str]:
        """The type that something uses, if it is deleted; else who uses it does not matter."""
        items = [self._known.cache.item(name) for name in _type_of(user)]
        return [item.key for item in items if item is not None and item.metadata.deletion_timestamp is not None]

    async def reconcile(self, name: str) -> None:
        """Bring one type in line."""
        known = self._known.get(name)
        if known is None:
            await self._restore(name)
        elif not await hold(self._resource, known.metadata, TYPE_FINALIZER, used=self._is_used(name)):
            status = type_status(known, self._clock.now())
            await write_status(self._resource, known.metadata, known.status, status, MANAGER)

    async def _restore(self, name: str) -> None:
        body = self._built_in.get(name)
        if body is not None:
            try:
                await self._resource.create(body, manager=MANAGER)
            except AlreadyExists:
                return  # our copy is behind

    def _is_used(self, name: str) -> bool:
        return any(informer.indexed(BY_TYPE, name) for informer in self._users)


def _type_of(item: Item[Any]) -> tuple[str, ...]:
    try:
        return (object_name(item.object.spec.template.spec.runtime.resources.instance_type),)
    except msgspec.ValidationError:
        return ()  # a server that does not know our kinds lets things through that cannot be read
