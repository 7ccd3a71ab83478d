"""Finds the resctrl mount and its groups. Pure."""

from __future__ import annotations

from typing import Final

_NO_GROUPS: Final = frozenset({"info", "mon_groups", "mon_data"})


def mount_point(mounts: str) -> str:
    """Return the mount point of resctrl, from the lines of /proc/mounts; empty if it is not mounted."""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) > 2 and fields[2] == "resctrl":
            return fields[1].replace("\\040", " ")
    return ""


def is_group(name: str, has_tasks: bool) -> bool:
    """Return True if a top-level directory is a group that processes can be put into."""
    return has_tasks and name not in _NO_GROUPS


def classes_of_partitions(document: object) -> list[str]:
    """Return the classes in a runtime's own RDT file: the keys of `partitions.NAME.classes`."""
    found: list[str] = []
    for partition in _values(_get(document, "partitions")):
        found += [str(name) for name in _keys(_get(partition, "classes"))]
    return sorted(set(found) - {"", "system/default"})


def _get(document: object, key: str) -> object:
    return document.get(key) if isinstance(document, dict) else None


def _values(document: object) -> list[object]:
    return list(document.values()) if isinstance(document, dict) else []


def _keys(document: object) -> list[object]:
    return list(document) if isinstance(document, dict) else []
