"""The programs that sandboxes call, in a folder of their own for each set of them: `FOLDER/HASH`.

A running shim calls runc or runsc again and again, for as long as its sandbox lives. A new package puts other programs
under the same names; a shim of the old version must not meet them. So a machine's containerd is started from links to
what is installed at that moment, in a folder that nobody changes: installing replaces names, and the links keep what
was there. Folders that no process runs from any more are removed.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from tarmac.runtimes.parts import NodeParts

_SINGLE = ("containerd", "ctr", "containerd_shim", "runc", "runsc", "runsc_shim")


def pinned(parts: NodeParts, folder: Path) -> NodeParts:
    """The same parts, from a folder that stays as it is. Raises OSError."""
    programs: dict[str, Path] = {name: found for name in _SINGLE if (found := getattr(parts, name)) is not None}
    plugins = sorted(each for each in parts.cni.iterdir() if each.is_file())
    own = folder / _hash([*programs.values(), *plugins])
    if not own.exists():
        unfinished = folder / f".{own.name}"
        shutil.rmtree(unfinished, ignore_errors=True)  # of one that was killed
        for name in ("bin", "cni"):
            (unfinished / name).mkdir(mode=0o755, parents=True)
        for program in programs.values():
            _link(program, unfinished / "bin" / program.name)
        for plugin in plugins:
            _link(plugin, unfinished / "cni" / plugin.name)
        unfinished.rename(own)
    linked = {name: own / "bin" / program.name for name, program in programs.items()}
    return replace(parts, cni=own / "cni", **linked)


def drop_unused(folder: Path, used: NodeParts, proc: Path = Path("/proc")) -> list[Path]:
    """Remove the folders of other sets that no process runs from; which they were."""
    known = [each for each in folder.glob("*") if each.is_dir() and each != used.cni.parent]
    if not known:
        return []
    running: set[str] = set()
    for exe in proc.glob("[0-9]*/exe"):
        with suppress(OSError):  # it has ended, or is a kernel's
            running.add(os.readlink(exe).removesuffix(" (deleted)"))
    unused = [each for each in known if not any(program.startswith(f"{each}/") for program in running)]
    for each in unused:
        shutil.rmtree(each, ignore_errors=True)
    return unused


def _hash(files: list[Path]) -> str:
    """Over what a package changes with any of them: names, sizes and times. Their bytes would take a second to read."""
    told = sha256()
    for file in files:
        found = file.stat()
        told.update(f"{file.name}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return told.hexdigest()[:16]


def _link(source: Path, target: Path) -> None:
    real = source.resolve()  # a link to a name would follow it to the next version
    try:
        os.link(real, target)
    except OSError:  # another file system, or links are not allowed there
        shutil.copy2(real, target)
