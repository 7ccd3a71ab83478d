"""Answers validation's lookups from a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from tarmac.api.compute.lookup import ImageFacts, TypeFacts, facts_of, image_facts_of
from tarmac.api.networking.names import TOPOLOGY_CITY_CODE
from tarmac.decide.snapshot.snapshot import INSTANCE_TYPES, LOCATIONS, MACHINE_IMAGES, Snapshot


class SnapshotLookup:
    """Lookups for validation. While there is no Location at all, cities and Locations are not validated."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._world = snapshot

    def instance_types(self) -> Mapping[str, TypeFacts]:
        """Return every InstanceType by object name."""
        objects = map(msgspec.json.decode, self._world.list(INSTANCE_TYPES.resource))
        return {each["metadata"]["name"]: facts_of(each["spec"]) for each in objects}

    def machine_images(self) -> Mapping[str, ImageFacts]:
        """Return every MachineImage by object name."""
        objects = map(msgspec.json.decode, self._world.list(MACHINE_IMAGES.resource))
        return {each["metadata"]["name"]: image_facts_of(each["spec"]) for each in objects}

    def cities(self) -> Collection[str] | None:
        """Return the city codes of all Locations."""
        return {each.spec.topology.get(TOPOLOGY_CITY_CODE, "") for each in LOCATIONS.all(self._world)} or None

    def locations(self) -> Collection[str] | None:
        """Return the names of all Locations."""
        return {each.metadata.name for each in LOCATIONS.all(self._world)} or None
