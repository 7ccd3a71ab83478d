"""The packages, as `make package` builds them, kept in `dist` until one of their inputs changes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from tools import machines_package, node_parts
from tools.cache import ROOT, digest
from tools.package import PARTS, build
from tools.packing import epoch

CODENAMES = {"12": "bookworm", "13": "trixie"}
_TOOLS = ("tools/package.py", "tools/machines_package.py", "tools/packing.py")
_SOURCES = ("src/tarmac", "packaging", "requirements.lock", "pyproject.toml", *_TOOLS)


def package(debian: str = "12") -> Path:
    """Return the package `tarmac` for a Debian, compressed less than a release.

    Building it takes half a minute, and removes the packages of earlier sources.
    """
    parts, system = node_parts.ensure(), CODENAMES[debian]
    folder = _folder(parts)
    return next(folder.glob(f"tarmac_*_{system}_*.deb"), None) or build(folder, system, parts, fast=True)


def both_packages(debian: str = "12") -> tuple[Path, Path]:
    """Return `tarmac` and `tarmac-machines`. Raises RuntimeError if the second cannot be built here."""
    first, parts = package(debian), node_parts.ensure()
    return first, next(first.parent.glob("tarmac-machines_*.deb"), None) or machines_package.build(first.parent, parts)


def _folder(parts: Path) -> Path:
    kept = ROOT / "dist" / "of-tests"
    folder = kept / digest(_inputs(parts))
    if not folder.is_dir():
        shutil.rmtree(kept, ignore_errors=True)
    return folder


def _inputs(parts: Path) -> Iterator[bytes]:
    """Yield all inputs; parts count by their place in the cache, which contains their version."""
    yield str(epoch()).encode()
    for name in _SOURCES:
        for file in _files(ROOT / name):
            yield str(file).encode()
            yield file.read_bytes()
    for part in sorted(each for name in PARTS for each in (parts / name).iterdir()):
        yield str(part.resolve()).encode()
    described = parts / "machine-images" / "tiny.json"  # has the checksums of the other machine images
    yield described.read_bytes() if described.is_file() else b""


def _files(top: Path) -> list[Path]:
    if top.is_file():
        return [top]
    return sorted(file for file in top.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
