"""Packs a tree into a Debian package, the same bytes each time: times are the commit's, owners root, names sorted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tools.cache import ROOT


def put(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a file of the tree."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def epoch() -> int:
    """Return the time of the commit, which everything in a package has."""
    return int(git("log", "-1", "--format=%ct"))


def git(*words: str) -> str:
    """Return the output of a git command in the clone."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def pack(root: Path, final: Path, *, fast: bool = True) -> None:
    """Build the package from a tree with `DEBIAN/control`; `final` appears once it is complete.

    `fast`: compressed less, in a tenth of the time.
    """
    when = epoch()
    for path in [*root.rglob("*"), root]:
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runs else 0o644)
        os.utime(path, (when, when), follow_symlinks=False)
    partial = final.with_suffix(".part")
    method = ["-Zzstd", "-z6"] if fast else ["-Zxz", "-z9", "--threads-max=2"]
    command = ["dpkg-deb", "--root-owner-group", *method, "--build", str(root), str(partial)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(when)}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    partial.rename(final)
