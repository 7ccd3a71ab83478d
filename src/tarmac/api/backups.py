"""The record of the newest backup: ConfigMap `kube-system/tarmac-backups`, written by `tarmac backup create`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tarmac.base.clock import parse_rfc3339

BACKUPS_MAP: Final = "tarmac-backups"
TIME: Final = "time"
"""Key of the creation time, in RFC 3339. The other keys are `revision` and `digest`."""


def made_at(record: Mapping[str, str]) -> float | None:
    """Return the creation time of the newest backup in Unix seconds, or None if it cannot be read."""
    try:
        return parse_rfc3339(record.get(TIME, ""))
    except ValueError:  # any user with write access to that ConfigMap can store an invalid time
        return None
