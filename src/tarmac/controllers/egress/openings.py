"""The index of inbound ports, kept in step with the cache of ExternalServices.

An ExternalService is put again when it is reconciled, which every change of an object that it names causes, and before
any other is resolved if its spec has changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tarmac.api.egress.externalservice import ExternalService
from tarmac.client.cache import Item
from tarmac.controllers.egress.caches import EgressCaches
from tarmac.decide.egress.openings import Openings
from tarmac.decide.egress.views import World


class OpeningIndex(Openings):
    """The ports of all ExternalServices."""

    def __init__(self, caches: EgressCaches) -> None:
        super().__init__()
        self._caches = caches
        self._changed: dict[str, None] = {}  # keys, in order
        caches.services.on_change(self._service_changed)

    def unknown(self, addresses: Iterable[str], world: World) -> Iterator[ExternalService]:
        """Yield the ExternalServices that have changed, of all addresses."""
        while self._changed:
            # One at a time: while this generator is suspended, events may change the set.
            key = next(iter(self._changed))
            del self._changed[key]
            service = self._caches.services.get(key)
            if service is not None and service.metadata.deletion_timestamp is None:
                yield service

    def take_moved(self) -> list[str]:
        """Return the keys of the ExternalServices to be reconciled again, once."""
        found, self.moved = sorted(self.moved), set()
        return found

    def _service_changed(self, old: Item[ExternalService] | None, new: Item[ExternalService] | None) -> None:
        if new is None or new.metadata.deletion_timestamp is not None:
            item = new or old
            if item is not None:
                self._changed.pop(item.key, None)
                self.drop(item.key)
        elif old is None or old.metadata.uid != new.metadata.uid or old.object.spec != new.object.spec:
            self._changed[new.key] = None
