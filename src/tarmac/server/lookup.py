"""Lookups of live objects for validation, answered from the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, TypeVar

from tarmac.api.compute.lookup import ImageFacts, TypeFacts, facts_of, image_facts_of
from tarmac.api.networking.names import TOPOLOGY_CITY_CODE
from tarmac.server.reader import Reader, decode

F = TypeVar("F")


class StoreLookup:
    """Reads the newest accepted state. Without any Location, places cannot be validated and none is rejected."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._types = _Catalogue(reader, "compute.datumapis.com/instancetypes", facts_of)
        self._images = _Catalogue(reader, "compute.datumapis.com/machineimages", image_facts_of)

    def instance_types(self) -> Mapping[str, TypeFacts]:
        """Return every InstanceType by object name."""
        return self._types.facts()

    def machine_images(self) -> Mapping[str, ImageFacts]:
        """Return every MachineImage by object name."""
        return self._images.facts()

    def cities(self) -> Collection[str] | None:
        """Return the city codes of all Locations, or None without any."""
        locations = self._reader.list("networking.datumapis.com/locations")
        return {item["spec"]["topology"][TOPOLOGY_CITY_CODE] for item in locations} or None

    def locations(self) -> Collection[str] | None:
        """Return the names of all Locations, or None without any."""
        return {item["metadata"]["name"] for item in self._reader.list("networking.datumapis.com/locations")} or None


class _Catalogue(Generic[F]):
    """Cache of facts about a few objects that are read with every Instance and hardly ever change."""

    def __init__(self, reader: Reader, bucket: str, facts_of: Callable[[Mapping[str, Any]], F]) -> None:
        self._reader, self._bucket, self._facts_of = reader, bucket, facts_of
        self._revisions: list[int] = []  # revisions of the objects that the facts were read from
        self._facts: Mapping[str, F] = {}

    def facts(self) -> Mapping[str, F]:
        """Return the facts by object name; decode again only after a change."""
        entries = self._reader.store.list(self._bucket).entries
        revisions = [entry.revision for entry in entries]
        # All revisions, not only the newest: a deletion leaves that one as it is.
        if revisions != self._revisions:
            self._facts = {entry.name: self._facts_of(decode(entry)["spec"]) for entry in entries}
            self._revisions = revisions
        return self._facts
