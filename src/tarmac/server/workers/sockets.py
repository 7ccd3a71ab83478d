"""Sockets between the processes of one server: in a private directory, mode 0600, with a check of the peer's user.

Messages on them are trusted: a stream of a node, a node's name. So both sides ask the kernel for the user of the peer's
process and talk only to their own user.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import cast

from tarmac.base.log import log
from tarmac.http.accepting import Acceptor
from tarmac.http.clientrequest import Dial
from tarmac.http.listener import Listener

_CREDENTIALS = struct.Struct("3i")  # process, user, group
_log = log("workers")


def socket_path(folder: Path, index: int) -> Path:
    """Return the path of a worker's socket."""
    return folder / f"{index}.sock"


def make_folder(folder: Path) -> None:
    """Create the directory with mode 0700. Raises OSError when it belongs to another user."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Not `stat`: another user may have put a link to one of our own directories here.
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user; remove it")
    folder.chmod(0o700)


def unix(path: Path, is_own: Callable[[socket.socket], bool] | None = None) -> Dial:
    """Return a function that connects to a worker. It raises PermissionError when another user listens there."""
    own = is_own or is_ours

    async def dial(factory: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        made = socket.socket(socket.AF_UNIX)
        try:
            made.setblocking(False)
            await loop.sock_connect(made, str(path))
            # Before the first byte is sent. For the connecting side, SO_PEERCRED names the process that called listen
            # (unix(7)).
            if not own(made):
                raise PermissionError(f"{path} is another user's")
            await loop.create_unix_connection(factory, sock=made)
        # Cancellation included: a socket without a transport has no other owner that would close it.
        except BaseException:
            made.close()
            raise

    return dial


def is_ours(connection: socket.socket) -> bool:
    """Return whether the peer's process runs as our own user."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    # The kernel fills it in when the connection is made: a peer that changes its user later stays the one that it was.
    return _CREDENTIALS.unpack(found)[1] == os.geteuid()


class WorkerSocket:
    """Hands accepted connections of our own user to a listener. Implements `http.accepting.Welcome`."""

    def __init__(self, path: Path, listener: Listener, is_own: Callable[[socket.socket], bool] | None = None) -> None:
        self._path = path
        self._listener = listener
        self._is_own = is_own or is_ours
        self._acceptor = Acceptor(self, asyncio.get_running_loop().connect_accepted_socket, None)

    def open(self) -> None:
        """Listen. Raises OSError."""
        self._path.unlink(missing_ok=True)  # left by a killed worker
        bound = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)  # process-wide; no await until it is restored, so no other task creates files with it
        try:
            bound.bind(str(self._path))
        finally:
            os.umask(before)
        self._acceptor.add(bound)

    def close(self) -> None:
        """Stop listening."""
        self._acceptor.close()
        self._path.unlink(missing_ok=True)

    # Called by the acceptor.

    def register(self, accepted: socket.socket, address: str) -> asyncio.Protocol:
        """Return the protocol of a connection. Connections of other users are closed before a byte is read."""
        if self._is_own(accepted):
            return _Adopted(self._listener)
        _log.warning("connection of another user rejected", socket=str(self._path))
        return _TurnedAway()

    def forget(self, protocol: asyncio.Protocol) -> None:
        """Do nothing."""

    def evict(self) -> int:
        """Return 0: no connection here is expendable."""
        return 0

    @property
    def open_descriptors(self) -> int:
        """0: these descriptors do not belong to clients."""
        return 0


class _Adopted(asyncio.Protocol):
    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._listener.adopt(cast("asyncio.Transport", transport), b"")


class _TurnedAway(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).abort()
