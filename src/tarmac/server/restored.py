"""Stored conflicts after a restore: bucket `tarmac/running`, one entry per pod whose node's version differs.

The bucket is not part of the API. Keys are `NAMESPACE/POD/NODE`, so creating or binding a pod reads only the few
entries with its name, and none at all where nothing was restored.
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
_NODES = "core/nodes"


def restored_at(store: Store) -> str:
    """Return the time of the last restore; empty if never."""
    entry = store.head(*RESTORES)
    return msgspec.json.decode(entry.raw)["time"] if entry is not None else ""


class _Stored(msgspec.Struct):
    metadata: dict[str, Any]
    pod: dict[str, Any]
    why: str
    removed: bool = False


class RestoredConflict(NamedTuple):
    """One running pod that differs from the store's version."""

    namespace: str
    name: str
    node: str
    pod: JsonObject  # the node's version
    why: str
    removed: bool  # an administrator decided to remove it, and its node has not ended it yet

    @property
    def key(self) -> str:
        """Its key in the bucket."""
        return f"{self.namespace}/{self.name}/{self.node}"

    @property
    def message(self) -> str:
        """The description for users."""
        uid = self.pod["metadata"]["uid"]
        decide = f"`tarmac restored adopt {self.namespace}/{self.name}` keeps it, `remove` ends it"
        going = "it is being ended" if self.removed else decide
        return f"{self.namespace}/{self.name} with uid {uid} runs on {self.node}, but {self.why}; {going}"

    def encoded(self) -> bytes:
        """Return the bytes to store."""
        return msgspec.json.encode(_Stored({"name": self.key}, self.pod, self.why, self.removed))


def conflicts(store: Store, prefix: str = "", node: str = "") -> Iterator[tuple[Entry, RestoredConflict]]:
    """Yield the conflicts whose key begins with the prefix, of one node if given."""
    for entry, (namespace, name, told_by) in _named(store, prefix):
        if node in ("", told_by):
            found = msgspec.json.decode(entry.raw, type=_Stored)
            yield entry, RestoredConflict(namespace, name, told_by, found.pod, found.why, found.removed)


def conflict_keys(store: Store) -> set[str]:
    """Return NAMESPACE/POD of every conflict. No pod is decoded."""
    return {f"{namespace}/{name}" for _, (namespace, name, _) in _named(store, "")}


def count_conflicts(store: Store) -> int:
    """Return the number of running pods that differ from the store's version."""
    return sum(1 for _ in _named(store, ""))


def _named(store: Store, prefix: str) -> Iterator[tuple[Entry, list[str]]]:
    """Yield entries with parsed keys, without those of deleted Nodes: deleting a Node frees the names it holds."""
    if not store.count(RUNNING):  # fast path for every new pod: nearly always empty
        return
    for entry in store.list(RUNNING, prefix).entries:
        parts = entry.name.split("/")
        if store.head(_NODES, parts[2]) is not None:
            yield entry, parts


def conflict_of(store: Store, namespace: str, name: str) -> RestoredConflict | None:
    """Return the first conflict with this name, or None."""
    return next((each for _, each in conflicts(store, f"{namespace}/{name}/")), None)


def refuse_conflict(store: Store, namespace: str, name: str, uid: str = "") -> None:
    """Reject creating or binding a pod while a different pod of that name runs. Raises Conflict.

    `uid` is that of the pod at hand: the running pod itself may be adopted.
    """
    found = [each for _, each in conflicts(store, f"{namespace}/{name}/")]
    if found and all(each.pod["metadata"]["uid"] != uid for each in found):
        raise Conflict(f"{REASON}: {found[0].message}", details={"name": name, "kind": "pods"})
