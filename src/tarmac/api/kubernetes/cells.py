"""Building blocks for the columns of Kubernetes' own kinds.

A description that starts with a dot is the path of a field in the kind's published schema: the table shows that
field's description, as Kubernetes does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tarmac.api.resource import Age, Column
from tarmac.api.schema import JsonObject

UNKNOWN = "<unknown>"
NONE = "<none>"
UNSET = "<unset>"


def since(timestamp: str | None) -> Age | str:
    """Return the time since a timestamp, for the AGE column."""
    return Age(timestamp) if timestamp else UNKNOWN


def cell(
    name: str, value: Callable[[JsonObject], Any], description: str = "", *, type: str = "string", wide: bool = False
) -> Column:
    """Return a column without a format."""
    return Column(name, value, type, priority=int(wide), description=description)


def field(name: str, path: str, *, default: Any = "", type: str = "string", wide: bool = False) -> Column:
    """Return a column that shows one field, described by its schema."""
    keys = path.removeprefix(".").split(".")

    def value(obj: JsonObject) -> Any:
        found: Any = obj
        for key in keys:
            found = found.get(key) if found else None
        return found or default

    return cell(name, value, path, type=type, wide=wide)


def join_labels(labels: dict[str, str] | None) -> str:
    """Return `a=b,c=d`, sorted."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) if labels else NONE


NAME = Column("Name", lambda obj: obj["metadata"].get("name", ""), format="name", description=".metadata.name")
AGE = cell("Age", lambda obj: since(obj["metadata"].get("creationTimestamp")), ".metadata.creationTimestamp")
