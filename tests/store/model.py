"""A reference model of the store in a few lines: tests compare every driver with it.

Revisions are numbers of writes; every version of everything is kept.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.store.objects import PODS, SECRETS


class Version(NamedTuple):
    """One version of an object."""

    name: str
    number: int
    created: int
    text: str


class Change(NamedTuple):
    """One event."""

    type: str
    bucket: str
    version: Version
    previous: Version | None


class Write(NamedTuple):
    """An operation to try. `stale` names a version that is not the current one."""

    action: str  # create, update, delete, or put: create or update
    bucket: str
    name: str
    text: str
    stale: bool


Outcome = Version | str
Objects = dict[tuple[str, str], Version]


class Model:
    """Snapshots by number, and all changes."""

    def __init__(self) -> None:
        self.snapshots: list[Objects] = [{}]
        self.changes: list[Change] = []
        self.compacted = 0

    @property
    def now(self) -> int:
        """Number of the last write."""
        return len(self.changes)

    def action_of(self, write: Write) -> str:
        """Return the action; `put` becomes create or update."""
        there = (write.bucket, write.name) in self.snapshots[-1]
        return write.action if write.action != "put" else "update" if there else "create"

    def write(self, write: Write) -> Outcome:
        """Apply the write; return the new version or the name of the error."""
        key = write.bucket, write.name
        current = self.snapshots[-1].get(key)
        action = self.action_of(write)
        if action == "create":
            if current is not None:
                return "Exists"
            number = self.now + 1
            return self._make("ADDED", write.bucket, Version(write.name, number, number, write.text), None)
        if current is None:
            return "Missing"
        if write.stale:
            return "RevisionConflict"
        final = current.text if action == "delete" and not write.text else write.text
        version = Version(write.name, self.now + 1, current.created, final)
        return self._make("DELETED" if action == "delete" else "MODIFIED", write.bucket, version, current)

    def _make(self, type: str, bucket: str, version: Version, previous: Version | None) -> Version:
        objects = dict(self.snapshots[-1])
        if type == "DELETED":
            del objects[bucket, version.name]
        else:
            objects[bucket, version.name] = version
        self.snapshots.append(objects)
        self.changes.append(Change(type, bucket, version, previous))
        return version

    def page(self, bucket: str, prefix: str, after: str, limit: int, number: int) -> tuple[list[Version], int] | str:
        """Return the list as of a write."""
        if number < self.compacted:
            return "Compacted"
        found = [
            version
            for (where, name), version in sorted(self.snapshots[number].items())
            if where == bucket and name.startswith(prefix) and name > after
        ]
        shown = found[:limit] if limit else found
        return shown, len(found) - len(shown)

    def history(self, bucket: str, prefix: str, number: int) -> list[Change] | str:
        """Return the changes after a write."""
        if number < self.compacted:
            return "Compacted"
        return [c for c in self.changes[number:] if c.bucket == bucket and c.version.name.startswith(prefix)]

    def counts(self) -> list[int]:
        """Return the number of objects in each bucket."""
        return [sum(where == bucket for where, _ in self.snapshots[-1]) for bucket in (PODS, SECRETS)]
