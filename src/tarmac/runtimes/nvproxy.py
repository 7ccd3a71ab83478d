"""The NVIDIA drivers that gVisor knows: their table is compiled into runsc, and a sandbox fails with any other."""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Final

_TIMEOUT: Final = 20.0
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+")


@lru_cache(maxsize=8)
def known_drivers(runsc: Path) -> tuple[str, ...]:
    """Return the drivers that a runsc can proxy, oldest first; none if it cannot tell."""
    command = [str(runsc), "nvproxy", "list-supported-drivers"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.SubprocessError):
        return ()
    words = done.stdout.split() if done.returncode == 0 else []
    return tuple(sorted(filter(_VERSION.fullmatch, words), key=_numbers))


def nearest(version: str, known: tuple[str, ...]) -> str:
    """Return the known driver that is nearest to a version: of the same branch, if there is one. Empty without any."""
    wanted = _numbers(version)
    return min(
        known, key=lambda each: tuple(abs(a - b) for a, b in zip(_numbers(each), wanted, strict=False)), default=""
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
