"""The service `Registration` on `kubelet.sock`, where plugins register.

The socket appears when the agent can serve, and not before: a plugin that sees it registers at once. A registration is
answered after the plugin has been dialled and has returned its options; the number of pending registrations is limited.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from google.protobuf.message import DecodeError

from tarmac.agent.devices._generated import deviceplugin_subset_pb2 as pb
from tarmac.agent.devices.folder import FolderInUse, plugin_socket, prepare_folder
from tarmac.agent.devices.plugins import DeviceFault
from tarmac.agent.devices.socketname import SOCKET
from tarmac.api.kubernetes.resourcenames import is_extended
from tarmac.base.log import log
from tarmac.http.grpc import Code, GrpcError
from tarmac.http.grpcserver import GrpcServer

VERSION: Final = "v1beta1"
_METHOD: Final = "v1beta1.Registration/Register"
_CONNECTIONS: Final = 32
_WAITING: Final = 16
_log = log("devices")

Register = Callable[[str, Path], Awaitable[None]]


class Registration:
    """Serves the folder. `register` is called with a resource and the socket of its plugin; it raises DeviceFault."""

    def __init__(self, folder: Path, register: Register) -> None:
        self._folder = folder
        self._register = register
        # Per resource, so that the newer of two registrations wins, and a slow plugin does not delay other resources.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._under_way = 0
        self._logged = ""

    async def run(self) -> None:
        """Serve until cancelled. Returns on failure, when the node has no devices; the caller retries."""
        try:
            await self._serve()
        except (FolderInUse, OSError) as error:
            if self._logged != str(error):
                self._logged = str(error)
                _log.warning("device plugins cannot register", folder=str(self._folder), why=self._logged)

    async def _serve(self) -> None:
        await asyncio.to_thread(prepare_folder, self._folder)
        path = self._folder / SOCKET
        aside = path.with_name(f".{SOCKET}")
        server = GrpcServer(self.answer, _CONNECTIONS)
        listening = await asyncio.get_running_loop().create_unix_server(server.connection, str(aside))
        try:
            async with listening:
                # Before the rename: a connection may register devices for every pod of the node.
                aside.chmod(0o600)
                os.replace(aside, path)  # only now: a plugin that finds the path must find a listener
                await listening.serve_forever()
        finally:
            await server.close()

    async def answer(self, method: str, message: bytes) -> bytes:
        """Handle one call. Raises GrpcError."""
        if method != _METHOD:
            raise GrpcError(Code.UNIMPLEMENTED, f"unknown method {method}")
        # Bounded: each waits for a plugin to be dialled, and a program may register without end.
        if self._under_way >= _WAITING:
            raise GrpcError(Code.RESOURCE_EXHAUSTED, f"{_WAITING} registrations wait already")
        self._under_way += 1
        try:
            await self._registered(message)
        except DeviceFault as fault:
            _log.warning("device plugin registration rejected", why=str(fault))
            raise GrpcError(Code.UNKNOWN, str(fault)) from fault
        finally:
            self._under_way -= 1
        return pb.Empty().SerializeToString()

    async def _registered(self, message: bytes) -> None:
        try:
            request = pb.RegisterRequest.FromString(message)
        except DecodeError as error:
            raise DeviceFault("a registration that is no message of the device plugin API") from error
        if request.version != VERSION:
            known = f'["{VERSION}"]'
            raise DeviceFault(
                f'requested API version "{request.version}" is not supported by kubelet. Supported version is {known}'
            )
        if not is_extended(request.resource_name):
            raise DeviceFault(f'the ResourceName "{request.resource_name}" is invalid')
        try:
            path = plugin_socket(self._folder, request.endpoint)
        except ValueError as error:
            raise DeviceFault(f"failed to dial device plugin: {error}") from error
        # Held here: the dictionary has only a weak reference, and drops a lock that no registration uses.
        turn = self._turns.setdefault(request.resource_name, asyncio.Lock())
        async with turn:
            await self._register(request.resource_name, path)
