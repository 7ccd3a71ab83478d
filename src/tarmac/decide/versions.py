"""Compatibility of Tarmac versions: servers first, agents and controllers at most one minor version behind.

Versions are `MAJOR.MINOR.PATCH`; only the first two count. An unreadable version does not prevent a node from joining,
but it blocks an upgrade until an operator has checked it. A component that reports no version has `SILENT`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tarmac.base.digits import whole_number

Minor = tuple[int, int]
SILENT = "0.1"
"""The last version that did not report its version."""
_MAX_PART: Final = 10**6
_UNREADABLE = "says that it has tarmac {!r}, which is no version such as 0.2.0; see that it fits, and install a release"


def minor_of(version: str) -> Minor | None:
    """Return the major and minor version; None if they cannot be parsed."""
    parts = [whole_number(part, _MAX_PART) for part in version.split(".", 2)[:2]]
    if len(parts) != 2 or parts[0] is None or parts[1] is None:
        return None
    return parts[0], parts[1]


def joins(own: str, server: str) -> str:
    """Return the reason why a node of one version cannot join a server of the other version; empty when it can."""
    mine, theirs = minor_of(own), minor_of(server)
    if mine is None or theirs is None:
        return ""
    if mine > theirs:
        return f"this is tarmac {own}, the server has {server}: upgrade the server first"
    if not _neighbours(mine, theirs):
        return f"this is tarmac {own}, the server has {server}: install a version at most one minor behind"
    return ""


def all_are(version: str, found: Mapping[str, str]) -> bool:
    """Return True if every component has this version or a newer one: then all of them can read its data."""
    wanted = minor_of(version)
    minors = [minor_of(each) for each in found.values()]
    return wanted is not None and all(each is not None and each >= wanted for each in minors)


def against_upgrade(
    to: str, servers: Mapping[str, str], agents: Mapping[str, str], controllers: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the obstacles to an upgrade, with their subject; each is a sentence that says how to remove it."""
    wanted = minor_of(to)
    if wanted is None:
        yield "version", f"{to!r} is no version such as 0.2.0; name one with --to"
        return
    reported = {name: version or SILENT for name, version in servers.items()}
    newest = max((each for each in map(minor_of, reported.values()) if each is not None), default=wanted)
    for name, version in reported.items():
        if against := _of_a_server(version, to, wanted):
            yield "server", f"{name} {against}"
    for what, found in (("agent", agents), ("controllers", controllers)):
        for name, version in found.items():
            if against := _of_a_follower(version or SILENT, newest, to, wanted):
                yield what, f"{name} {against}"


def _of_a_server(version: str, to: str, wanted: Minor) -> str:
    known = minor_of(version)
    if known is None:
        return _UNREADABLE.format(version)
    if known > wanted:
        return f"has tarmac {version}, which is newer than {to}; the way back is tarmac restore"
    return (
        "" if _neighbours(known, wanted) else f"has tarmac {version}; go to the next minor version first, one at a time"
    )


def _of_a_follower(version: str, newest: Minor, to: str, wanted: Minor) -> str:
    known = minor_of(version)
    if known is None:
        return _UNREADABLE.format(version)
    if known > newest:
        return f"has tarmac {version}, newer than its servers; upgrade the servers first"
    if known <= wanted and not _neighbours(known, wanted):
        return f"has tarmac {version}, too old for servers of {to}; upgrade it first"
    return ""


def _neighbours(older: Minor, newer: Minor) -> bool:
    return older[0] == newer[0] and 0 <= newer[1] - older[1] <= 1
