"""A worker's place among the processes of one server."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Seat:
    """Which worker this is, of how many, where they meet, and whether the whole server stops and not just this one."""

    index: int
    count: int
    folder: Path
    stops: Callable[[], bool]


def meeting_folder(data_dir: Path) -> Path:
    """Where the workers of a data directory have their sockets: paths of sockets are short, and data's may be long."""
    if os.geteuid() != 0:
        return data_dir / "run"
    return Path("/run/tarmac/server") / sha256(str(data_dir).encode()).hexdigest()[:12]
