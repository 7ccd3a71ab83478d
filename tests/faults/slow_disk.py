"""The `tarmac` program on a disk whose syncs take seconds: `python -m tests.faults.slow_disk CONTROL server …`.

The file CONTROL contains the seconds; without it the disk has its real speed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tarmac.apps.main import main
from tarmac.store.sqlite.file import StoreFile

_sync = StoreFile.sync


def run(control: Path, arguments: list[str]) -> int:
    """Patch, and start `tarmac`."""

    def slow(self: StoreFile) -> None:
        if control.exists():
            time.sleep(float(control.read_text()))
        _sync(self)

    StoreFile.sync = slow
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
