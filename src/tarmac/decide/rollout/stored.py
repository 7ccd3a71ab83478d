"""The history of a Workload's template: an index in its status, and each template in a ControllerRevision of its own.

The index is written with the rest of the status, so what is in it happened. A template is kept before the index names
it, and is removed after the index has forgotten it; whoever ends in between leaves a ControllerRevision that nobody
names, never a name without one. Should a ControllerRevision be gone all the same, its revision cannot be gone back to.

Earlier versions kept templates in the index itself, compressed. They are read from there until they have moved.
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
_PACKED = "eN"  # how zlib's first bytes look in base64; a name has no capital letters
LARGEST = 4 << 20  # a template, which came in the body of a request once


def history_of(workload: Workload) -> tuple[Revision, ...]:
    """The revisions of a Workload that its status knows, the newest last."""
    return tuple(_revision(each) for each in (workload.status.revisions if workload.status else ()))


def history_now(workload: Workload, now: float) -> tuple[Revision, ...]:
    """The same with the template as it is now."""
    return record(history_of(workload), workload.spec.template, now)


def records_of(history: Sequence[Revision]) -> list[RevisionRecord]:
    """A history as status has it."""
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
    """Whether the index itself has the template, as an earlier version wrote it."""
    return revision.template.startswith(_PACKED)


def unpacked(revision: Revision) -> InstanceTemplate | None:
    """The template that is in the index; None where there is none that can be read."""
    try:
        return _decode(_inflated(base64.b64decode(revision.template)))
    except (ValueError, zlib.error, msgspec.MsgspecError):
        return None


def controller_revision(owner: ObjectMeta, revision: Revision, template: InstanceTemplate) -> JsonObject:
    """The object that keeps a template. Its name is of the content, so making it twice is making it once."""
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
    """The template that an object keeps for a Workload; None where it is another's, or cannot be read."""
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
    """Status may be written by others than us, and a megabyte can inflate to a gigabyte. Raises ValueError."""
    reading = zlib.decompressobj()
    plain = reading.decompress(packed, LARGEST)
    if not reading.eof:
        raise ValueError(f"more than {LARGEST} bytes, or not all of them")
    return plain
