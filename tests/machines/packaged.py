"""The whole package, as `make package` builds it, kept in `dist` until something changes that goes into it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from tools import node_parts
from tools.cache import ROOT, digest
from tools.package import PARTS, build, epoch

_SOURCES = ("src/tarmac", "packaging", "requirements.lock", "pyproject.toml", "tools/package.py")


def package() -> Path:
    """Where it is. Building it takes half a minute, and the one before goes."""
    parts = node_parts.ensure()
    kept = ROOT / "dist" / "of-tests"
    folder = kept / digest(_inputs(parts))
    if not (found := list(folder.glob("*.deb"))):
        shutil.rmtree(kept, ignore_errors=True)
        found = [build(folder, parts=parts)]
    return found[0]


def _inputs(parts: Path) -> Iterator[bytes]:
    """Everything that decides about its bytes; parts by the place in the cache, which has their version in it."""
    yield str(epoch()).encode()
    for name in _SOURCES:
        for file in _files(ROOT / name):
            yield str(file).encode()
            yield file.read_bytes()
    for part in sorted(each for name in PARTS for each in (parts / name).iterdir()):
        yield str(part.resolve()).encode()


def _files(top: Path) -> list[Path]:
    if top.is_file():
        return [top]
    return sorted(file for file in top.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
