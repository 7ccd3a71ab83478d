"""The history of a Workload's template: an index in its status, and one ControllerRevision per template.

The index is written with the rest of the status, so every entry has happened. A template is stored before the index
names it, and deleted after the index has dropped it: a crash in between leaves an unreferenced ControllerRevision,
never a reference to a missing one. If a ControllerRevision is missing nevertheless, its revision cannot be restored.

Earlier versions stored templates in the index itself, compressed. They are read from there until they are migrated.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import msgspec

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.names import API_VERSION, LABEL_WORKLOAD_NAME, LABEL_WORKLOAD_UID, revision_name
from tarmac.api.compute.workload import RevisionRecord, Workload
from tarmac.api.declare import Time, decode, decoder, encode
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ObjectMeta
from tarmac.base.clock import parse_rfc3339, rfc3339
from tarmac.decide.rollout.history import Revision, record

_decode = decoder(InstanceTemplate)
_PACKED = "eN"  # zlib's first bytes in base64; a name has no capital letters
MAX_TEMPLATE_BYTES = 4 << 20  # upper bound of a template, which arrived in the body of a request


def history_of(workload: Workload) -> tuple[Revision, ...]:
    """Return the revisions in a Workload's status, newest last."""
    return tuple(_revision(each) for each in (workload.status.revisions if workload.status else ()))


def history_now(workload: Workload, now: float) -> tuple[Revision, ...]:
    """Return the revisions in a Workload's status, with its current template as the newest."""
    return record(history_of(workload), workload.spec.template, now)


def records_of(history: Sequence[Revision]) -> list[RevisionRecord]:
    """Convert a history to its form in status."""
    return [
        RevisionRecord(
            number=each.number,
            template_hash=each.template_hash,
            created=Time(rfc3339(each.created)),
            template=each.template,
            completed=None if each.completed is None else Time(rfc3339(each.completed)),
        )
        for each in history
    ]


def is_packed(revision: Revision) -> bool:
    """Return True if the index itself holds the template, as an earlier version wrote it."""
    return revision.template.startswith(_PACKED)


def unpacked(revision: Revision) -> InstanceTemplate | None:
    """Return the template held in the index; None when it is absent or cannot be decoded."""
    try:
        return _decode(_inflated(base64.b64decode(revision.template)))
    except (ValueError, zlib.error, msgspec.MsgspecError):
        return None


def controller_revision(owner: ObjectMeta, revision: Revision, template: InstanceTemplate) -> JsonObject:
    """Return the object that stores a template. Its name is derived from the content, so creating it is idempotent."""
    reference = {"apiVersion": API_VERSION, "kind": "Workload", "name": owner.name, "uid": owner.uid}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": revision_name(owner.name, owner.uid, revision.number, revision.template_hash),
            "namespace": owner.namespace,
            "labels": {LABEL_WORKLOAD_NAME: owner.name, LABEL_WORKLOAD_UID: owner.uid},
            "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": True}],
        },
        "revision": revision.number,
        "data": {"spec": {"template": encode(template)}},
    }


def template_in(found: JsonObject, owner: ObjectMeta) -> InstanceTemplate | None:
    """Return the template that a ControllerRevision stores for a Workload.

    None if the Workload does not own the object, or the template cannot be decoded.
    """
    owners = found["metadata"].get("ownerReferences") or ()
    if all(each.get("uid") != owner.uid for each in owners):
        return None
    try:
        return decode(InstanceTemplate, found["data"]["spec"]["template"])
    except (KeyError, TypeError, msgspec.MsgspecError):
        return None


def _revision(each: RevisionRecord) -> Revision:
    completed = None if each.completed is None else parse_rfc3339(each.completed)
    return Revision(each.number, each.template_hash, parse_rfc3339(each.created), completed, each.template)


def _inflated(packed: bytes) -> bytes:
    """Decompress at most `MAX_TEMPLATE_BYTES` bytes.

    Other clients can write status, and 1 MB can inflate to 1 GB. Raises ValueError.
    """
    reading = zlib.decompressobj()
    plain = reading.decompress(packed, MAX_TEMPLATE_BYTES)
    if not reading.eof:
        raise ValueError(f"more than {MAX_TEMPLATE_BYTES} bytes, or not all of them")
    return plain
