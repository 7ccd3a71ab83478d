"""Finds the class files of a stock runtime by its process: CRI does not report them.

The kernel knows the process behind the CRI socket (SO_PEERCRED). Its command line names its configuration, which names
the class files. Unreadable files are treated as missing: such a type is not offered.
"""

from __future__ import annotations

import glob
import os
import socket
import struct
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_CONTAINERD: Final = "/etc/containerd/config.toml"
_TASKS: Final = "io.containerd.service.v1.tasks-service"
_CRIO: Final = "/etc/crio/crio.conf"
_CRIO_FOLDER: Final = "/etc/crio/crio.conf.d"
_MAX_FILES: Final = 64  # limit for imports that import each other
_CREDENTIALS: Final = struct.Struct("iII")  # pid, uid, gid


@dataclass(frozen=True, slots=True)
class RuntimeFiles:
    """Paths of class files; empty without one."""

    blockio: str = ""
    rdt: str = ""


def runtime_files(name: str, version: str, path: str, proc: Path = Path("/proc")) -> RuntimeFiles:
    """Return the class files of the runtime behind a socket; `name` and `version` are those it reports."""
    process = peer(path)
    if not process:
        return RuntimeFiles()
    try:
        words = (proc / str(process) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        folder = os.readlink(proc / str(process) / "cwd")
    except OSError:
        return RuntimeFiles()
    if name == "cri-o":
        return _of_crio(words, folder)
    return _of_containerd(words, folder, blockio=_at_least(version, (1, 7)))


def peer(path: str) -> int:
    """Return the process that listens on a socket; 0 if there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)  # a runtime that accepts no connections must not block the agent
        try:
            connection.connect(path)
        except OSError:
            return 0
        # The kernel names the process that called listen(): with socket activation that is systemd, which names no
        # class file.
        stated = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(stated)[0]


def _of_containerd(words: Sequence[str], folder: str, *, blockio: bool) -> RuntimeFiles:
    """Read containerd's configuration. Later files override earlier ones, and imported files the importing one."""
    found: dict[str, str] = {}
    for document in _imports(os.path.join(folder, _option(words, "--config", "-c") or _CONTAINERD)):
        tasks = _table(_table(document, "plugins"), _TASKS)
        found |= {key: str(value) for key, value in tasks.items()}
    return RuntimeFiles(found.get("blockio_config_file", "") if blockio else "", found.get("rdt_config_file", ""))


def _imports(first: str) -> Iterator[Mapping[str, Any]]:
    waiting, seen = [first], set[str]()
    while waiting and len(seen) < _MAX_FILES:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        document = _toml(path)
        yield document
        stated = document.get("imports")
        for pattern in stated if isinstance(stated, list) else ():
            waiting += sorted(glob.glob(os.path.join(os.path.dirname(path), str(pattern))))


def _of_crio(words: Sequence[str], folder: str) -> RuntimeFiles:
    files = [_option(words, "--config", "-c") or _CRIO]
    files += sorted(glob.glob(os.path.join(folder, _option(words, "--config-dir", "-d") or _CRIO_FOLDER, "*")))
    found: dict[str, str] = {}
    for file in files:
        runtime = _table(_table(_toml(os.path.join(folder, file)), "crio"), "runtime")
        found |= {key: str(value) for key, value in runtime.items()}
    return RuntimeFiles(
        _option(words, "--blockio-config-file") or found.get("blockio_config_file", ""),
        _option(words, "--rdt-config-file") or found.get("rdt_config_file", ""),
    )


def _option(words: Sequence[str], *names: str) -> str:
    """Return the value of the last of these options on a command line: `--config F`, `--config=F`, `-c F`."""
    found = ""
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in names:
            found = value if equals else "".join(words[index + 1 : index + 2])
    return found


def _toml(path: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text())
    except (OSError, ValueError, RecursionError):
        return {}


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def _at_least(version: str, wanted: tuple[int, int]) -> bool:
    major, _, rest = version.lstrip("v").partition(".")
    minor = rest.partition(".")[0]
    return major.isdecimal() and minor.isdecimal() and (int(major), int(minor)) >= wanted
