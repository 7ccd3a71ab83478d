"""Hints for users whose shell does not find `tarmac` or `kubectl`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def hints(kubeconfig: Path) -> list[str]:
    """Return a line with a command to paste for each program that is not on the PATH."""
    found: list[str] = []
    own = Path(sys.executable).parent / "tarmac"
    if shutil.which("tarmac") is None:
        where = f"export PATH={own.parent}:$PATH" if own.exists() else f"use `{sys.executable} -m tarmac.apps.main`"
        found.append(f"tarmac is not on the PATH: {where}")
    if shutil.which("kubectl") is None:
        found.append(
            f"kubectl is not on the PATH: install one from 1.30 on (it wants --kubeconfig {kubeconfig}), or in a clone "
            f"of Tarmac build one: export PATH=$(dirname $(.venv/bin/python -m tools.kubectl)):$PATH"
        )
    return found
