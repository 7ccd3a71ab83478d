"""The folder with the plugins' sockets and the agent's `kubelet.sock`.

A process that can write here can act as a plugin, and so put any file of the host into a container. So only root may
access the folder: one of another user is rejected, and permissions of other users are removed.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Final

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.devices.socketname import SOCKET
from tarmac.base.log import log

FLAG: Final = "--device-plugin-dir"
_RIGHTS: Final = 0o700
_MAX_PATH: Final = 107  # limit of the kernel for a socket
_log = log("devices")


class FolderInUse(Exception):
    """Another agent serves this folder."""


def check_folder(folder: Path) -> None:
    """Validate the folder before anything is created. Raises BadConfig."""
    path = folder / SOCKET
    if not folder.is_absolute():
        raise BadConfig(f"{FLAG}: bad socketPath, must be an absolute path: {path}")
    if len(os.fsencode(path)) > _MAX_PATH:
        raise BadConfig(f"{FLAG}: {path} is longer than the {_MAX_PATH} bytes that a socket's path may have")
    try:
        # Not followed: a link could lead to a folder that another user controls.
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
    """Claim the folder and remove its sockets: plugins notice that and register again. Raises OSError, FolderInUse."""
    folder.mkdir(parents=True, exist_ok=True, mode=_RIGHTS)
    if stat.S_IMODE(os.lstat(folder).st_mode) != _RIGHTS:
        _log.info("removed other users' permissions on the device plugin folder", folder=str(folder))
        folder.chmod(_RIGHTS)
    if _answers(folder / SOCKET):
        raise FolderInUse(f"another agent answers at {folder / SOCKET}; give this one a folder of its own by {FLAG}")
    for path in folder.iterdir():
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            path.unlink(missing_ok=True)


def leave_folder(folder: Path) -> None:
    """Remove our socket, unless another agent serves it."""
    if not _answers(folder / SOCKET):
        (folder / SOCKET).unlink(missing_ok=True)


def plugin_socket(folder: Path, endpoint: str) -> Path:
    """Return the socket that a plugin names. Raises ValueError unless it is a socket in the folder itself."""
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
    """Return True if a process listens. A killed agent leaves a socket without a listener."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # a full queue means that a process listens, too
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True
