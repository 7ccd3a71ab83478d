"""The context of a validation run: the collected errors, the lookup and the stored values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tarmac.api.checks import mapping, objects
from tarmac.api.compute.lookup import Lookup
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors


@dataclass(frozen=True, slots=True)
class Stored:
    """Values of the stored object. An unchanged value is never rejected because of later changes in the live system."""

    instance_type: str = ""
    images: frozenset[tuple[str, str]] = frozenset()  # (container, image)
    cities: frozenset[str] = frozenset()
    locations: frozenset[str] = frozenset()
    disk_images: frozenset[tuple[str, str]] = frozenset()  # (image, size) of disks made from an image
    grace: int | None = None

    @staticmethod
    def of_template_spec(spec: JsonObject, placements: Iterable[JsonObject] = ()) -> Stored:
        """Return the stored values of an object with this template and these placements."""
        sandbox = mapping(spec, "runtime", "sandbox")
        containers = [*objects(sandbox, "containers"), *objects(sandbox, "initContainers")]
        cities: set[str] = set()
        locations: set[str] = set()
        for placement in placements:
            cities.update(placement.get("cityCodes") or (), mapping(placement, "onCityLoss").get("cities") or ())
            locations.update(item.get("name", "") for item in objects(placement, "locations"))
        return Stored(
            mapping(spec, "runtime", "resources").get("instanceType", ""),
            frozenset((item.get("name", ""), item.get("image", "")) for item in containers),
            frozenset(cities),
            frozenset(locations),
            frozenset(image_and_size(mapping(each, "disk", "template", "spec")) for each in objects(spec, "volumes")),
            sandbox.get("terminationGracePeriodSeconds"),
        )


def image_and_size(disk: JsonObject) -> tuple[str, str]:
    """Return image and size of a disk, as written; empty if not given."""
    image = mapping(disk, "populator", "image").get("name", "")
    return image, str(mapping(disk, "resources", "requests").get("storage", ""))


@dataclass(frozen=True, slots=True)
class Context:
    """One validation run."""

    errors: FieldErrors
    lookup: Lookup
    stored: Stored = field(default_factory=Stored)
