"""UEFI: Debian's read-only firmware, and one file of variables (boot entries, mostly) per machine.

That file belongs to the boot disk and lies beside it: it survives a restart of the machine, serves the next Instance
with that disk, and is deleted with the disk. A boot disk that is not a file has its variables in the log directory.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Final

from tarmac.decide.disks import VARIABLES
from tarmac.runtimes.interface.errors import RuntimeRefused

CODE: Final = Path("/usr/share/OVMF/OVMF_CODE_4M.fd")
_TEMPLATE: Final = Path("/usr/share/OVMF/OVMF_VARS_4M.fd")


def variables_of(boot_disk: str, otherwise: Path) -> Path:
    """Return the path of a machine's variables. Raises OSError."""
    path = Path(os.path.realpath(boot_disk))
    beside = stat.S_ISREG(path.stat().st_mode)
    return path.with_suffix(VARIABLES) if beside else otherwise / f"firmware{VARIABLES}"


def make_variables(path: Path) -> Path:
    """Create the variables atomically, unless they exist. Raises RuntimeRefused without firmware, OSError."""
    if missing := next((each for each in (CODE, _TEMPLATE) if not each.exists()), None):
        raise RuntimeRefused(
            f"the machine's image starts by UEFI, and this node has no firmware for it ({missing}): "
            "install Debian's package ovmf on the node"
        )
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f"{VARIABLES}~")
        shutil.copyfile(_TEMPLATE, fresh)
        fresh.chmod(0o600)
        fresh.rename(path)  # an agent killed before this starts over with a new copy
    return path
