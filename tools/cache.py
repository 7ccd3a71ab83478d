"""The cache of fetched and built third-party parts: one folder per name, version and hash of its inputs.

The cache is outside the clone, so clones share it. A part is built in a temporary folder and renamed into place, so an
interrupted build leaves no part that looks finished, and two builds at once end with one good copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def cache_root() -> Path:
    """`$XDG_CACHE_HOME/tarmac`, by default `~/.cache/tarmac`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tarmac"


def digest(inputs: Iterable[bytes]) -> str:
    """Return a short hash of everything that determines the content of a part."""
    sha = hashlib.sha256()
    for item in inputs:
        sha.update(len(item).to_bytes(8, "big") + item)
    return sha.hexdigest()[:12]


def cached(name: str, version: str, key: str, build: Callable[[Path], None]) -> Path:
    """Return the folder of a part, built by `build(folder)` if it does not exist yet."""
    final = cache_root() / f"{name}-{version}-{key}"
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=final.parent))
    try:
        build(work)
        work.chmod(0o755)
        with contextlib.suppress(OSError):  # another build finished first: its result is as good
            work.rename(final)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return final


def say(text: str) -> None:
    """Report progress on standard error; standard output is left to results."""
    print(text, file=sys.stderr, flush=True)
