"""Programs used by sandboxes, pinned in one directory per version set: `FOLDER/HASH`.

A running shim executes runc or runsc repeatedly, for as long as its sandbox lives. A new package installs new programs
under the same names, which a shim of the old version must not execute. So the host's containerd is started from hard
links to the programs installed at that moment, in a directory that never changes: a package replaces names, and the
links keep the old files. Directories that no process runs from any more are removed.
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
    """Return the same parts, from an immutable directory. Raises OSError."""
    programs: dict[str, Path] = {name: found for name in _SINGLE if (found := getattr(parts, name)) is not None}
    plugins = sorted(each for each in parts.cni.iterdir() if each.is_file())
    own = folder / _hash([*programs.values(), *plugins])
    if not own.exists():
        unfinished = folder / f".{own.name}"
        shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed process
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
    """Remove the directories of other sets that no process runs from; return them."""
    known = [each for each in folder.glob("*") if each.is_dir() and each != used.cni.parent]
    if not known:
        return []
    running: set[str] = set()
    for exe in proc.glob("[0-9]*/exe"):
        with suppress(OSError):  # the process has exited, or is a kernel thread
            running.add(os.readlink(exe).removesuffix(" (deleted)"))
    unused = [each for each in known if not any(program.startswith(f"{each}/") for program in running)]
    for each in unused:
        shutil.rmtree(each, ignore_errors=True)
    return unused


def _hash(files: list[Path]) -> str:
    """Hash names, sizes and times, which every package update changes. Reading the contents would take a second."""
    digest = sha256()
    for file in files:
        found = file.stat()
        digest.update(f"{file.name}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _link(source: Path, target: Path) -> None:
    real = source.resolve()  # a link to a symbolic link would follow it to the next version
    try:
        os.link(real, target)
    except OSError:  # another file system, or hard links are not permitted
        shutil.copy2(real, target)
