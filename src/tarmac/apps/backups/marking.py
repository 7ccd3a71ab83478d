"""Changes made to restored objects: the time of the restore, and revocations that stay in force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tarmac.api.identities import NAMESPACE, RESTORED
from tarmac.api.nodetokens import REVOKED_MAP
from tarmac.api.restored import RESTORES
from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339
from tarmac.store.backups.restoring import Changed
from tarmac.store.interface import PREFIX
from tarmac.store.sqlite.sums import LogRow

_NODES = "core/nodes"
_REVOKED = ("core/configmaps", f"{NAMESPACE}/{REVOKED_MAP}")


def changes_of(backup: Iterable[LogRow], present: Iterable[LogRow], now: float) -> list[Changed]:
    """Return all objects of the backup that must be changed during the restore."""
    time = rfc3339(now)
    note = _encoded({"metadata": {"name": RESTORES[1]}, "time": time})
    known, revoked = list(backup), [row for row in present if (row.bucket, row.name) == _REVOKED]
    return [Changed(*RESTORES, note), *_marked_nodes(known, time), *(_kept_refused(known, row) for row in revoked)]


def _marked_nodes(rows: Iterable[LogRow], time: str) -> Iterator[Changed]:
    for row in rows:
        if row.bucket == _NODES:
            node = _decoded(row)
            metadata = node["metadata"]
            metadata["annotations"] = {**(metadata.get("annotations") or {}), RESTORED: time}
            yield Changed(row.bucket, row.name, _encoded(node))


def _kept_refused(backup: Iterable[LogRow], present: LogRow) -> Changed:
    """Keep all revocations made since the backup: the revoked certificates still exist."""
    now = _decoded(present)
    for row in backup:
        if (row.bucket, row.name) == _REVOKED:
            now["data"] = {**(_decoded(row).get("data") or {}), **(now.get("data") or {})}
    return Changed(*_REVOKED, _encoded(now))


def _decoded(row: LogRow) -> JsonObject:
    return msgspec.json.decode(row.value or b"{}")


def _encoded(value: JsonObject) -> bytes:
    """Encode as the store does: metadata first, without a resource version."""
    metadata = {name: each for name, each in value["metadata"].items() if name != "resourceVersion"}
    encoded = msgspec.json.encode({"metadata": metadata, **{k: v for k, v in value.items() if k != "metadata"}})
    assert encoded.startswith(PREFIX), "every object has metadata"
    return encoded
