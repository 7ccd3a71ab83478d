"""Drivers of a kernel that lie in modules, and the order in which they have to be loaded.

A module says in itself which others it needs. A driver that is no module must be built into the kernel, or the guest
would find out at boot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_depends = re.compile(rb"\0depends=([^\0]*)\0").search


def drivers(kernel: Path) -> Mapping[str, Path | None]:
    """Every driver of an unpacked kernel package by its name, with dashes as underscores; None: it is built in."""
    [folder] = (kernel / "lib" / "modules").iterdir()
    built_in = (folder / "modules.builtin").read_text().split()
    return {
        **{_name(Path(each)): None for each in built_in},
        **{_name(each): each for each in folder.rglob("*.ko")},
    }


def in_order(known: Mapping[str, Path | None], wanted: Sequence[str]) -> list[Path]:
    """The modules to load, each after those that it needs. Raises RuntimeError."""
    found: dict[str, Path] = {}

    def add(name: str) -> None:
        name = name.replace("-", "_")
        if name not in known:
            raise RuntimeError(f"the kernel has no driver {name}")
        path = known[name]
        if path is None or name in found:
            return
        stated = _depends(path.read_bytes())
        for needed in stated[1].decode().split(",") if stated else ():
            if needed:
                add(needed)
        found[name] = path

    for each in wanted:
        add(each)
    return list(found.values())


def _name(path: Path) -> str:
    return path.name.removesuffix(".ko").replace("-", "_")
