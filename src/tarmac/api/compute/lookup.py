"""Access to the live system for validation.

Validation itself is pure. It queries the existing cities, Locations, instance types and machine images through a
`Lookup`, so that the server can use its store, `tarmac plan` the objects it fetched, and tests a table. `None` means
"unknown"; then no object is rejected for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from tarmac.api.compute.instancetype import built_in, is_custom, object_name
from tarmac.api.compute.machineimage import built_in_images, image_object_name
from tarmac.base.quantity import Quantity

_PROJECT = "datumcloud-"


class TypeFacts(NamedTuple):
    """The facts about an instance type that validation needs. `resources` is empty for a custom type."""

    resources: Mapping[str, Quantity]
    phase: str = "Active"
    replacement: str = ""


class ImageFacts(NamedTuple):
    """The facts about a machine image that validation needs. `size` is the smallest disk that holds it."""

    size: Quantity
    phase: str = "Active"
    replacement: str = ""
    configurable: bool = True  # False if it does not accept keys, addresses and user data


class Lookup(Protocol):
    """Queries about the live system."""

    def instance_types(self) -> Mapping[str, TypeFacts]:
        """Every InstanceType by object name."""
        ...

    def machine_images(self) -> Mapping[str, ImageFacts]:
        """Every MachineImage by object name."""
        ...

    def cities(self) -> Collection[str] | None:
        """City codes of all Locations."""
        ...

    def locations(self) -> Collection[str] | None:
        """Names of all Locations."""
        ...


def facts_of(spec: Mapping[str, Any]) -> TypeFacts:
    """Return the facts in an InstanceType's spec."""
    amounts = spec.get("resources")
    resources = amounts if isinstance(amounts, dict) else {}
    lifecycle = _lifecycle(spec)
    return TypeFacts(
        {name: Quantity.parse(amount) for name, amount in resources.items()},
        lifecycle.get("phase", "Active"),
        lifecycle.get("replacementInstanceType", ""),
    )


def image_facts_of(spec: Mapping[str, Any]) -> ImageFacts:
    """Return the facts in a MachineImage's spec."""
    lifecycle = _lifecycle(spec)
    return ImageFacts(
        Quantity.parse(spec["size"]),
        lifecycle.get("phase", "Active"),
        lifecycle.get("replacementMachineImage", ""),
        spec.get("accepts", "cloud-init") != "none",
    )


def _lifecycle(spec: Mapping[str, Any]) -> Mapping[str, str]:
    lifecycle = spec.get("lifecycle")
    return lifecycle if isinstance(lifecycle, dict) else {}


class BuiltIn:
    """A lookup with the built-in instance types and machine images, and without places."""

    def __init__(self) -> None:
        self._types = {item["metadata"]["name"]: facts_of(item["spec"]) for item in built_in()}
        self._images = {item["metadata"]["name"]: image_facts_of(item["spec"]) for item in built_in_images()}

    def instance_types(self) -> Mapping[str, TypeFacts]:
        """The built-in catalogue."""
        return self._types

    def machine_images(self) -> Mapping[str, ImageFacts]:
        """The built-in catalogue."""
        return self._images

    def cities(self) -> Collection[str] | None:
        """Return None: unknown."""
        return None

    def locations(self) -> Collection[str] | None:
        """Return None: unknown."""
        return None


def find_type(lookup: Lookup, written: str) -> TypeFacts | None:
    """Return the facts for a name as written in a manifest. A family alone (`d1-custom`) is the platform's own."""
    known = lookup.instance_types()
    name = object_name(written)
    return known.get(name) or (known.get(_PROJECT + name) if is_custom(name) else None)


def find_image(lookup: Lookup, written: str) -> ImageFacts | None:
    """Return the facts for the name of an image as written in a manifest."""
    return lookup.machine_images().get(image_object_name(written))
