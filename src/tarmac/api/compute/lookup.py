"""What validation may ask about the live system.

Validation itself is pure. Which cities, Locations and instance types exist is asked through a `Lookup`, so that the
server answers from its store, `tarmac plan` from what it fetched, and tests from a table. `None` means "cannot say",
and then nothing is refused for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from tarmac.api.compute.instancetype import built_in, is_custom, object_name
from tarmac.base.quantity import Quantity

_PROJECT = "datumcloud-"


class TypeFacts(NamedTuple):
    """What validation needs to know about an instance type. `resources` is empty for a custom type."""

    resources: Mapping[str, Quantity]
    phase: str = "Active"
    replacement: str = ""


class Lookup(Protocol):
    """Answers about the live system."""

    def instance_types(self) -> Mapping[str, TypeFacts]:
        """Every InstanceType by object name."""
        ...

    def cities(self) -> Collection[str] | None:
        """City codes of all Locations."""
        ...

    def locations(self) -> Collection[str] | None:
        """Names of all Locations."""
        ...


def facts_of(spec: Mapping[str, object]) -> TypeFacts:
    """The facts in an InstanceType's spec."""
    amounts = spec.get("resources")
    lifecycle = spec.get("lifecycle")
    resources = amounts if isinstance(amounts, dict) else {}
    phase = lifecycle if isinstance(lifecycle, dict) else {}
    return TypeFacts(
        {name: Quantity.parse(amount) for name, amount in resources.items()},
        phase.get("phase", "Active"),
        phase.get("replacementInstanceType", ""),
    )


class BuiltIn:
    """Knows the built-in instance types, and no place."""

    def __init__(self) -> None:
        self._types = {item["metadata"]["name"]: facts_of(item["spec"]) for item in built_in()}

    def instance_types(self) -> Mapping[str, TypeFacts]:
        """The built-in catalogue."""
        return self._types

    def cities(self) -> Collection[str] | None:
        """Cannot say."""
        return None

    def locations(self) -> Collection[str] | None:
        """Cannot say."""
        return None


def find_type(lookup: Lookup, written: str) -> TypeFacts | None:
    """The facts behind a name as written in a manifest. A family alone (`d1-custom`) is the platform's own."""
    known = lookup.instance_types()
    name = object_name(written)
    return known.get(name) or (known.get(_PROJECT + name) if is_custom(name) else None)
