"""Volumes with files, for a machine: each becomes a read-only disk with the files mounted at the machine's start.

Internal names of the volume's driver (two leading dots) are left out. Links are followed inside the volume; a link that
leads out of it is an error.
"""

from __future__ import annotations

import os
from pathlib import Path

from tarmac.runtimes.interface.errors import RuntimeRefused
from tarmac.runtimes.qemu.iso import IsoFile

VOLUME_BYTES = 8 << 20
_LABEL = 16


def volume_label(name: str) -> str:
    """Return the label of the disk that the guest sees."""
    return name[:_LABEL].upper().replace("-", "_")


def volume_files(folder: Path) -> dict[str, IsoFile]:
    """Read the files of a volume, by relative path. Raises RuntimeRefused, OSError."""
    found: dict[str, IsoFile] = {}
    left, top = VOLUME_BYTES, folder.resolve()
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(each for each in folders if not each.startswith(".."))
        for name in sorted(each for each in names if not each.startswith("..")):
            path = Path(place, name)
            if not path.resolve().is_relative_to(top):
                raise RuntimeRefused(f"volume {folder.name}: {name} leads out of the volume")
            with path.open("rb") as file:
                content = file.read(left + 1)
                mode = os.fstat(file.fileno()).st_mode & 0o777
            left -= len(content)
            if left < 0:
                raise RuntimeRefused(f"volume {folder.name}: its files have over {VOLUME_BYTES} bytes together")
            found[str(path.relative_to(folder))] = IsoFile(content, mode)
    return found
