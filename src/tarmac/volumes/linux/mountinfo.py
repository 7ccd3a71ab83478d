"""Lists mounts, from the kernel's own table."""

from __future__ import annotations

import re
from typing import NamedTuple

_ESCAPED = re.compile(r"\\([0-7]{3})")


class MountPoint(NamedTuple):
    """A line of /proc/self/mountinfo, unescaped."""

    path: str
    device: str  # major:minor
    source: str
    kind: str
    read_only: bool
    shared: bool


def mounts(under: str = "/") -> list[MountPoint]:
    """Return the mounts at or below a path, in the order they were made."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        found = [_parse(line) for line in file]
    return [each for each in found if is_within(each.path, under)]


def mount_at(path: str) -> MountPoint | None:
    """Return the mount at exactly this path; the topmost of several."""
    return next((each for each in reversed(mounts(path)) if each.path == path), None)


def holder_of(path: str) -> MountPoint:
    """Return the mount that contains a path."""
    return max((each for each in mounts() if is_within(path, each.path)), key=lambda each: len(each.path))


def is_within(path: str, base: str) -> bool:
    """True if a path is the base or below it."""
    return path == base or path.startswith(base.rstrip("/") + "/")


def _parse(line: str) -> MountPoint:
    fields = line.split(" ")
    dash = fields.index("-")
    return MountPoint(
        path=_plain(fields[4]),
        device=fields[2],
        source=_plain(fields[dash + 2]),
        kind=fields[dash + 1],
        read_only="ro" in fields[5].split(","),
        shared=any(field.startswith("shared:") for field in fields[6:dash]),
    )


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), text) if "\\" in text else text
