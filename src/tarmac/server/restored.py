"""Restored conflicts as they are stored: bucket `tarmac/running`, one for each pod that a node runs otherwise.

The bucket is nobody's in the API. A name in it is `NAMESPACE/POD/NODE`, so that whoever is about to make or bind a pod
looks at the few with its name, and at none at all where nothing was restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from tarmac.api.restored import REASON, RESTORES
from tarmac.api.schema import JsonObject
from tarmac.api.status import Conflict
from tarmac.store.interface import Entry, Store

RUNNING = "tarmac/running"


def restored_at(store: Store) -> str:
    """When the store was restored last; empty if never."""
    entry = store.head(*RESTORES)
    return msgspec.json.decode(entry.raw)["time"] if entry is not None else ""


class _Stored(msgspec.Struct):
    metadata: dict[str, Any]
    pod: dict[str, Any]
    why: str
    removed: bool = False


class RestoredConflict(NamedTuple):
    """One pod that runs otherwise than the store has it."""

    namespace: str
    name: str
    node: str
    pod: JsonObject  # as the node has it
    why: str
    removed: bool  # somebody has decided against it, and its node is yet to end it

    @property
    def key(self) -> str:
        """Its name in the bucket."""
        return f"{self.namespace}/{self.name}/{self.node}"

    @property
    def message(self) -> str:
        """For people."""
        uid = self.pod["metadata"]["uid"]
        decide = f"`tarmac restored adopt {self.namespace}/{self.name}` keeps it, `remove` ends it"
        going = "it is being ended" if self.removed else decide
        return f"{self.namespace}/{self.name} with uid {uid} runs on {self.node}, but {self.why}; {going}"

    def encoded(self) -> bytes:
        """As it is stored."""
        return msgspec.json.encode(_Stored({"name": self.key}, self.pod, self.why, self.removed))


def conflicts(store: Store, prefix: str = "") -> Iterator[tuple[Entry, RestoredConflict]]:
    """Those whose names begin so; all of them otherwise."""
    if not store.count(RUNNING):  # nearly always, and asked for every new pod
        return
    for entry in store.list(RUNNING, prefix).entries:
        namespace, name, node = entry.name.split("/")
        found = msgspec.json.decode(entry.raw, type=_Stored)
        yield entry, RestoredConflict(namespace, name, node, found.pod, found.why, found.removed)


def conflict_of(store: Store, namespace: str, name: str) -> RestoredConflict | None:
    """The first one with this name."""
    return next((each for _, each in conflicts(store, f"{namespace}/{name}/")), None)


def refuse_conflict(store: Store, namespace: str, name: str) -> None:
    """No pod of a name that something else has is made or bound. Raises Conflict."""
    if (found := conflict_of(store, namespace, name)) is not None:
        raise Conflict(f"{REASON}: {found.message}", details={"name": name, "kind": "pods"})
