"""Where the newest backup is recorded: ConfigMap `kube-system/tarmac-backups`, which `tarmac backup create` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tarmac.base.clock import parse_rfc3339

BACKUPS_MAP: Final = "tarmac-backups"
TIME: Final = "time"
"""When it was made, in RFC 3339. Beside it stand `revision` and `digest`."""


def made_at(record: Mapping[str, str]) -> float | None:
    """When the newest backup was made, in Unix seconds; None where that cannot be read."""
    try:
        return parse_rfc3339(record.get(TIME, ""))
    except ValueError:  # whoever may write ConfigMaps there can write anything
        return None
