"""The folder where plugins have their sockets and the agent has `kubelet.sock`.

Whoever can write here can stand for the devices of the node, and through them put any file of the host into a
container. So the folder is root's alone: one that belongs to somebody else is refused, rights of others are taken away.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Final

from tarmac.agent.config.reading import BadConfig
from tarmac.base.log import log

SOCKET: Final = "kubelet.sock"
FLAG: Final = "--device-plugin-dir"
_RIGHTS: Final = 0o700
_LONGEST_PATH: Final = 107  # of a socket
_log = log("devices")


class FolderInUse(Exception):
    """Another agent answers here."""


def check_folder(folder: Path) -> None:
    """Whether it can be used, before anything is made. Raises BadConfig."""
    path = folder / SOCKET
    if not folder.is_absolute():
        raise BadConfig(f"{FLAG}: bad socketPath, must be an absolute path: {path}")
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise BadConfig(f"{FLAG}: {path} is longer than the {_LONGEST_PATH} bytes that a socket's path may have")
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadConfig(f"{FLAG}: {folder}: {error.strerror or error}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise BadConfig(f"{FLAG}: {folder} is not a directory")
    if found.st_uid != os.geteuid():
        raise BadConfig(f"{FLAG}: {folder} belongs to user {found.st_uid}, it must belong to user {os.geteuid()}")


def prepare_folder(folder: Path) -> None:
    """Make it ours, and empty of sockets: plugins see theirs go and register again. Raises OSError, FolderInUse."""
    folder.mkdir(parents=True, exist_ok=True, mode=_RIGHTS)
    if stat.S_IMODE(os.lstat(folder).st_mode) != _RIGHTS:
        _log.info("rights of others on the folder of device plugins are taken away", folder=str(folder))
        folder.chmod(_RIGHTS)
    if _answers(folder / SOCKET):
        raise FolderInUse(f"another agent answers at {folder / SOCKET}; give this one a folder of its own by {FLAG}")
    for path in folder.iterdir():
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            path.unlink(missing_ok=True)


def leave_folder(folder: Path) -> None:
    """Take our socket away, unless another agent answers at it."""
    if not _answers(folder / SOCKET):
        (folder / SOCKET).unlink(missing_ok=True)


def plugin_socket(folder: Path, endpoint: str) -> Path:
    """The socket that a plugin names. Raises ValueError: what it names is not a socket in the folder itself."""
    path = folder / endpoint
    if not endpoint or path.name != endpoint or endpoint in (SOCKET, ".", ".."):
        raise ValueError(f"endpoint {endpoint!r} is not the name of a socket in {folder}")
    try:
        # Not followed: a link would lead out of the folder.
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from error
    if not is_socket:
        raise ValueError(f"{path} is not a socket")
    return path


def _answers(path: Path) -> bool:
    """Whether somebody listens. An agent that was killed leaves a socket behind at which nobody does."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # a full queue of somebody who listens is an answer, too
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True
