"""Builds the version before this one from the repository's own history: `python -m tools.previous` prints its Python.

Which commit that is stands in `tests/upgrade/previous`. What it depends on comes from its own lock file, out of the
cache of packages when that has everything; its tables are made by its own tools. One folder per commit is kept beside
the other parts, so it is built once.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tools.cache import ROOT, cached, digest, say

NAMED_IN = ROOT / "tests" / "upgrade" / "previous"
_UV = ROOT / ".venv" / "bin" / "uv"


class NoHistory(Exception):
    """The commit cannot be had from this clone."""


def previous_python() -> Path:
    """The interpreter that has the previous version installed. Raises NoHistory."""
    commit = NAMED_IN.read_text().strip()
    made_by = digest([Path(__file__).read_bytes(), sys.version.encode()])
    return cached("previous", commit[:12], made_by, lambda work: _build(commit, work)) / ".venv" / "bin" / "python"


def _build(commit: str, work: Path) -> None:
    say(f"building the previous version from commit {commit[:12]}")
    source = work / "source"
    with tarfile.open(fileobj=io.BytesIO(_archive(commit))) as archive:
        archive.extractall(source)
    _run(source, _UV, "venv", "-q", "--python", sys.executable, "../.venv")
    _install(source, "--require-hashes", "-r", "requirements.lock")
    for tool in ("tools.kubernetes_tables", "tools.compile_protos"):
        _run(source, "../.venv/bin/python", "-m", tool)
    # Not editable: the folder gets its name afterwards, and the files are needed no longer.
    _install(source, "--no-deps", "--no-build-isolation", ".")
    shutil.rmtree(source)


def _archive(commit: str) -> bytes:
    done = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        output = done.stderr.decode(errors="replace").strip()
        raise NoHistory(
            f"{NAMED_IN.relative_to(ROOT)} names {commit}, which this clone cannot give ({output}); "
            "fetch the whole history: git fetch --unshallow"
        )
    return done.stdout


def _install(source: Path, *what: str) -> None:
    """From the cache alone if it has all of it: also without a network, and without asking whether there is news."""
    command, offline = [_UV, "pip", "install", "-q", *what], "--offline"
    tried = subprocess.run([*command, offline], check=False, cwd=source, env=_environment(), capture_output=True)
    if tried.returncode:
        _run(source, *command)


def _run(source: Path, *command: str | Path) -> None:
    subprocess.run(command, cwd=source, env=_environment(), check=True, stdout=sys.stderr)


def _environment() -> dict[str, str]:
    return {**os.environ, "VIRTUAL_ENV": "../.venv", "PYTHONPATH": "src", "UV_SYSTEM_CERTS": "1"}


if __name__ == "__main__":
    try:
        print(previous_python())
    except NoHistory as missing:  # everything but the tests of upgrades works without
        say(f"the previous version is not built: {missing}")
