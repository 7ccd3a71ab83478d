"""What validation asks about the live system, answered from the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tarmac.api.compute.lookup import TypeFacts, facts_of
from tarmac.api.networking.names import TOPOLOGY_CITY_CODE
from tarmac.server.reader import Reader, decode


class StoreLookup:
    """The newest accepted state. While there is no Location at all, places cannot be judged and none is refused."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._types: tuple[list[int], Mapping[str, TypeFacts]] = ([], {})  # revisions they were read at, and the types

    def instance_types(self) -> Mapping[str, TypeFacts]:
        """Every InstanceType by object name. They are asked for with every Instance and hardly ever change."""
        entries = self._reader.store.list("compute.datumapis.com/instancetypes").entries
        revisions = [entry.revision for entry in entries]
        if revisions != self._types[0]:
            self._types = (revisions, {entry.name: facts_of(decode(entry)["spec"]) for entry in entries})
        return self._types[1]

    def cities(self) -> Collection[str] | None:
        """City codes of all Locations."""
        locations = self._reader.list("networking.datumapis.com/locations")
        return {item["spec"]["topology"][TOPOLOGY_CITY_CODE] for item in locations} or None

    def locations(self) -> Collection[str] | None:
        """Names of all Locations."""
        return {item["metadata"]["name"] for item in self._reader.list("networking.datumapis.com/locations")} or None
