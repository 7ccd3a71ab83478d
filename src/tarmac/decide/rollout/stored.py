"""The history of a Workload's template as its status keeps it.

Status is written and read as a whole, so templates are kept compressed: twenty of them are a few kilobytes. Nothing but
the Workload itself is needed to go back, on any API server.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import msgspec

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.workload import RevisionRecord, Workload
from tarmac.api.declare import Time, decoder
from tarmac.base.clock import parse_rfc3339, rfc3339
from tarmac.decide.rollout.history import Revision

_decode = decoder(InstanceTemplate)
LARGEST = 4 << 20  # a template, which came in the body of a request once


def history_of(workload: Workload) -> tuple[Revision, ...]:
    """The revisions of a Workload, the newest last. A record that cannot be read is left out."""
    records = workload.status.revisions if workload.status else []
    return tuple(revision for record in records if (revision := _restored(record)) is not None)


def stored(history: Sequence[Revision], records: Sequence[RevisionRecord] = ()) -> list[RevisionRecord]:
    """A history in the form of status. `records` are those that exist, which need not be made again."""
    known = {record.number: record for record in records}
    return [_record(revision, known.get(revision.number)) for revision in history]


def _record(revision: Revision, known: RevisionRecord | None) -> RevisionRecord:
    completed = None if revision.completed is None else Time(rfc3339(revision.completed))
    if known is not None:
        return msgspec.structs.replace(known, completed=completed)
    template = msgspec.json.encode(revision.template, enc_hook=str, order="deterministic")
    return RevisionRecord(
        number=revision.number,
        template_hash=revision.template_hash,
        created=Time(rfc3339(revision.created)),
        template=base64.b64encode(zlib.compress(template, 9)).decode(),
        completed=completed,
    )


def _restored(record: RevisionRecord) -> Revision | None:
    try:
        template = _decode(_inflated(base64.b64decode(record.template)))
    except (ValueError, zlib.error, msgspec.MsgspecError):
        return None
    completed = None if record.completed is None else parse_rfc3339(record.completed)
    return Revision(record.number, record.template_hash, template, parse_rfc3339(record.created), completed)


def _inflated(packed: bytes) -> bytes:
    """Status may be written by others than us, and a megabyte can inflate to a gigabyte. Raises ValueError."""
    reading = zlib.decompressobj()
    plain = reading.decompress(packed, LARGEST)
    if not reading.eof:
        raise ValueError(f"more than {LARGEST} bytes, or not all of them")
    return plain
