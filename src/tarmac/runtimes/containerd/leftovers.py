"""Finds and ends what a containerd left behind: processes that name its `run` folder, and mounts below its folders.

This works after a kill -9 of anything, because it looks at the kernel and not at anybody's notes. A process counts as
containerd's only if it is one of its programs *and* names the folder on its command line: an agent that was told the
socket, or an editor, stays.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

_PROGRAMS = ("containerd", "runsc", "runc")  # how the names begin
_SHIM = "containerd-shim"
_SHIM_COMMANDS = ("start", "delete")  # these end by themselves
_TASKS = "io.containerd.runtime.v2.task"
_GVISOR_CHILDREN = ("runsc-sandbox", "runsc-gofer")


def processes_naming(folder: Path) -> list[int]:
    """Containerd's own processes for this `run` folder: the daemon, shims, gVisor's kernels and gofers."""
    wanted = f"{folder}/"
    return [
        pid
        for pid, arguments in _command_lines()
        if arguments and Path(arguments[0]).name.startswith(_PROGRAMS) and any(wanted in word for word in arguments)
    ]


def parent(pid: int) -> int:
    """Whose child it is; 0 if it is gone."""
    try:
        return _parent(Path(f"/proc/{pid}"))
    except OSError:
        return 0


def end_processes(pids: Iterable[int]) -> None:
    """Kill them and everything below them; those below are collected first, since orphans are hard to find."""
    for pid in _with_descendants(pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end_orphans(folder: Path) -> None:
    """End what nobody will ever ask for again: shims without a bundle, and gVisor's kernels and gofers without a shim.

    A containerd that starts ends the shims of what it finds unfinished, which may leave kernels and gofers behind. A
    shim that was being started when containerd was killed comes up all the same, but the next containerd found nobody
    at its address and has thrown its bundle away.
    """
    names = dict(_command_lines())
    for pid in processes_naming(folder):
        mine, above = names.get(pid, [""]), names.get(parent(pid), [""])
        # While a kernel is being made its parent is `runsc`, from then on its shim.
        without_shim = mine[0] in _GVISOR_CHILDREN and not Path(above[0]).name.startswith(_PROGRAMS)
        if without_shim or _is_shim_without_bundle(mine, folder / "state" / _TASKS):
            end_processes([pid])


def _is_shim_without_bundle(arguments: list[str], bundles: Path) -> bool:
    """A bundle is there before its shim is started, so one that is missing is gone."""
    if not Path(arguments[0]).name.startswith(_SHIM) or arguments[-1] in _SHIM_COMMANDS:
        return False
    flags = dict(pairwise(arguments))
    return not (bundles / flags.get("-namespace", "") / flags.get("-id", "")).exists()


def delete_containers(runc: Path, root: Path) -> None:
    """What runc still knows under this root ends, with its cgroups, even if its shim is gone."""
    for state in root.glob("*/*/state.json"):
        with contextlib.suppress(OSError, ValueError):
            json.loads(state.read_text())  # half-written: it never started
            command = [runc, "--root", state.parent.parent, "delete", "--force", state.parent.name]
            subprocess.run(command, check=False, capture_output=True, timeout=30)


def release_namespaces(state: Path) -> None:
    """Let go of network namespaces that nobody is in, while no containerd runs.

    A containerd that is killed after it made one, and before it noted for whom, never thinks of it again.
    """
    inhabited = {_inode(entry / "ns" / "net") for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    for namespace in state.glob("*/netns/*"):
        if _inode(namespace) not in inhabited:
            subprocess.run(["umount", "-l", namespace], check=False, capture_output=True)
            namespace.unlink(missing_ok=True)


def unmount_below(folder: Path) -> None:
    """Unmount everything in a folder and the folder itself, innermost first."""
    for mount in sorted(_mounts(folder), key=len, reverse=True):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True)


def is_memory_backed(folder: Path) -> bool:
    """Whether what is written there never reaches a disk (swap aside)."""
    answer = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True)
    return answer.stdout.strip() in ("tmpfs", "ramfs")


def mount_memory(folder: Path) -> None:
    """Put a tmpfs there. Raises CalledProcessError."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0700,nosuid,nodev", "tarmac", folder], check=True)


def _command_lines() -> Iterator[tuple[int, list[str]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                raw = (entry / "cmdline").read_bytes()
                yield int(entry.name), raw.decode(errors="replace").rstrip("\0").split("\0")


def _with_descendants(pids: Iterable[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(_parent(entry), []).append(int(entry.name))
    found = list(pids)
    for pid in found:
        found.extend(child for child in children.get(pid, ()) if child not in found)
    return found


def _parent(process: Path) -> int:
    # the name in parentheses is the process's own choice: spaces, parentheses, bytes that are no text
    return int((process / "stat").read_bytes().rpartition(b")")[2].split()[1])


def _inode(namespace: Path) -> int:
    try:
        return namespace.stat().st_ino
    except OSError:
        return 0


def _mounts(folder: Path) -> list[str]:
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    plain = [place.encode().decode("unicode_escape") for place in places]
    return [place for place in plain if place == str(folder) or place.startswith(f"{folder}/")]
