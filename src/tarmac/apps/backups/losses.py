"""Counts the changes that a restore would lose, by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tarmac.server.security.keyrecords import BUCKET
from tarmac.store.sqlite.sums import LogRow


def losses(present: Iterable[LogRow], backup: Iterable[LogRow]) -> list[str]:
    """Return a line for each kind in which the store differs from the backup, except for key records, which stay."""
    now, then = ({(row.bucket, row.name): row for row in rows if row.bucket != BUCKET} for rows in (present, backup))
    newer = Counter(bucket for bucket, name in now if (bucket, name) not in then)
    changed = Counter(key[0] for key, row in now.items() if key in then and then[key].value != row.value)
    gone = Counter(bucket for bucket, name in then if (bucket, name) not in now)
    lines: list[str] = []
    for bucket in sorted({*newer, *changed, *gone}):
        counts = (
            (newer, "made since (lost)"),
            (changed, "changed since (go back)"),
            (gone, "deleted since (come back)"),
        )
        told = ", ".join(f"{what}: {count[bucket]}" for count, what in counts if count[bucket])
        lines.append(f"{bucket.partition('/')[2]}: {told}")
    return lines
