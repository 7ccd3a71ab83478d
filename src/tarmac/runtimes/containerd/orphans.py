"""Finds and removes orphans of a containerd: processes that name its `run` directory, and mounts below its directories.

This works after a SIGKILL of any process, because it inspects the kernel and no saved state. A process counts as
containerd's only if it is one of its programs *and* names the directory on its command line: an agent configured with
the socket, or an editor, is not touched.
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

_PROGRAMS = ("containerd", "runsc", "runc")  # prefixes of their names
_SHIM = "containerd-shim"
_SHIM_COMMANDS = ("start", "delete")  # short-lived: these exit by themselves
_TASKS = "io.containerd.runtime.v2.task"
_GVISOR_CHILDREN = ("runsc-sandbox", "runsc-gofer")


def processes_naming(folder: Path) -> list[int]:
    """Return containerd's processes for this `run` directory: the daemon, shims, gVisor's kernels and gofers."""
    wanted = f"{folder}/"
    return [
        pid
        for pid, arguments in _command_lines()
        if arguments and Path(arguments[0]).name.startswith(_PROGRAMS) and any(wanted in word for word in arguments)
    ]


def parent(pid: int) -> int:
    """Return the parent's id; 0 if the process is gone."""
    try:
        return _parent(Path(f"/proc/{pid}"))
    except OSError:
        return 0


def end_processes(pids: Iterable[int]) -> None:
    """Kill processes and their descendants, which are collected first: once reparented, they are hard to find."""
    for pid in _with_descendants(pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end_orphans(folder: Path) -> None:
    """Kill orphans that no containerd manages: shims without a bundle, and gVisor's kernels and gofers without a shim.

    At its start, containerd kills the shims of unfinished sandboxes, which may leave kernels and gofers behind. A shim
    that was being started when containerd was killed still comes up, but the next containerd got no answer from it and
    has deleted its bundle.
    """
    names = dict(_command_lines())
    for pid in processes_naming(folder):
        mine, above = names.get(pid, [""]), names.get(parent(pid), [""])
        # While a kernel is being created its parent is `runsc`, from then on its shim.
        without_shim = mine[0] in _GVISOR_CHILDREN and not Path(above[0]).name.startswith(_PROGRAMS)
        if without_shim or _is_shim_without_bundle(mine, folder / "state" / _TASKS):
            end_processes([pid])


def _is_shim_without_bundle(arguments: list[str], bundles: Path) -> bool:
    """Tell if a shim's bundle is gone. It is created before the shim is started, so a missing one was deleted."""
    if not Path(arguments[0]).name.startswith(_SHIM) or arguments[-1] in _SHIM_COMMANDS:
        return False
    flags = dict(pairwise(arguments))
    return not (bundles / flags.get("-namespace", "") / flags.get("-id", "")).exists()


def delete_containers(runc: Path, root: Path) -> None:
    """Force-delete all containers that runc has under this root, with their cgroups, even if their shims are gone."""
    for state in root.glob("*/*/state.json"):
        with contextlib.suppress(OSError, ValueError):
            json.loads(state.read_text())  # an incomplete file means that the container never started
            command = [runc, "--root", state.parent.parent, "delete", "--force", state.parent.name]
            subprocess.run(command, check=False, capture_output=True, timeout=30)


def release_namespaces(state: Path) -> None:
    """Unmount network namespaces without processes. Call only while no containerd runs.

    A containerd that is killed between creating a namespace and recording its sandbox never releases it.
    """
    inhabited = {_inode(entry / "ns" / "net") for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    for namespace in state.glob("*/netns/*"):
        if _inode(namespace) not in inhabited:
            subprocess.run(["umount", "-l", namespace], check=False, capture_output=True)
            namespace.unlink(missing_ok=True)


def unmount_below(folder: Path) -> None:
    """Unmount everything below a directory and the directory itself, innermost first."""
    for mount in sorted(_mounts(folder), key=len, reverse=True):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True)


def is_memory_backed(folder: Path) -> bool:
    """Tell if the directory is in memory, so that its files never reach a disk (swap aside)."""
    answer = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True)
    return answer.stdout.strip() in ("tmpfs", "ramfs")


def mount_memory(folder: Path) -> None:
    """Mount a tmpfs on the directory. Raises CalledProcessError."""
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
    # The name in parentheses is chosen by the process: it may contain spaces, parentheses and invalid UTF-8.
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
