"""The v1 Endpoints object of each Service with a selector, for clients that still read it.

It has the name of its Service and is deleted with it, regardless of its writer: on the deletion of the Service, and at
start for Services deleted while no controller was running. Endpoints without a Service are otherwise kept, since they
may be written before their Service. The Endpoints of Services without a selector are written by users.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tarmac.api.status import NotFound
from tarmac.client.cache import Item
from tarmac.client.envelope import split_key
from tarmac.client.informer import Informer
from tarmac.client.targets.untyped import ENDPOINTS, SERVICES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.endpointslices import MANAGER
from tarmac.controllers.writes import create_if_absent, exists
from tarmac.decide.endpoints import Listing
from tarmac.decide.endpoints.mirrors import LEADER


class EndpointsObjects:
    """Writes and deletes Endpoints."""

    def __init__(self, context: ControllerContext) -> None:
        self._runner = context.client.runner
        self._endpoints = context.client.resource(ENDPOINTS)
        self._services = context.client.resource(SERVICES)
        self.known = context.informers.informer(ENDPOINTS)
        # Keys of deleted Services. Lost in a crash, and found again by `orphans` at the next start.
        self._deleted: set[str] = set()

    def orphans(self, services: Informer[Any]) -> list[str]:
        """Return the keys of Endpoints without a Service, except those used for leader election."""
        found = [
            item.key
            for item in self.known.cache.items()
            if item.key not in services.cache and LEADER not in (item.metadata.annotations or {})
        ]
        self._deleted.update(found)
        return found

    def service_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        """Record that a Service was created, changed or deleted."""
        if new is not None:
            # Created again: its Endpoints are no orphans any more.
            self._deleted.discard(new.key)
        elif old is not None:
            self._deleted.add(old.key)

    async def write(self, key: str, listing: Listing) -> None:
        """Write the Endpoints of a Service unless they are current."""
        wanted = await self._runner.done(listing.object(self.known.get(key)))
        if wanted is None:
            return
        if "resourceVersion" in wanted["metadata"]:
            await self._endpoints.update(wanted, manager=MANAGER)
            return
        await create_if_absent(self._endpoints, wanted, MANAGER)

    async def remove(self, key: str) -> None:
        """Delete the Endpoints of a deleted Service. Endpoints that never had a Service stay."""
        if key not in self._deleted:
            return
        namespace, name = split_key(key)
        # The caches are not of one moment: Endpoints may be observed before the Service they were written for.
        if await exists(self._services, name, namespace):
            return
        with suppress(NotFound):
            await self._endpoints.delete(name, namespace)
        self._deleted.discard(key)
