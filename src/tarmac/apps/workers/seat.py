"""The position of a worker among the processes of one server."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Seat:
    """Index and number of workers, the directory of their sockets, and `stops`:

    True if the whole server is stopping.
    """

    index: int
    count: int
    folder: Path
    stops: Callable[[], bool]


def meeting_folder(data_dir: Path) -> Path:
    """Return the directory of the workers' sockets: socket paths are limited, and the data directory's may be long."""
    if os.geteuid() != 0:
        return data_dir / "run"
    return Path("/run/tarmac/server") / sha256(str(data_dir).encode()).hexdigest()[:12]
