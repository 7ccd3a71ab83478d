"""UEFI: Debian's firmware, which is read only, and a file for what it remembers of one machine (boot entries, mostly).

That file belongs to the boot disk and is beside it: it is there after a restart of the machine and for its next
Instance, and goes when the disk does. A boot disk that is no file has its variables with the machine's log instead.
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
    """Where the variables of a machine are. Raises OSError."""
    path = Path(os.path.realpath(boot_disk))
    beside = stat.S_ISREG(path.stat().st_mode)
    return path.with_suffix(VARIABLES) if beside else otherwise / f"firmware{VARIABLES}"


def make_variables(path: Path) -> Path:
    """Have them, unless they are there; complete under their name. Raises RuntimeRefused without firmware, OSError."""
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
        fresh.rename(path)  # an agent that is killed before this makes them again
    return path
