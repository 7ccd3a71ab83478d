"""The device plugin: one socket and one registration for each model.

Kubelet, or the agent, makes its socket anew when it starts and removes those of plugins. So the plugin looks every
second, and listens and registers again when either socket is not the one it knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tarmac.agent.devices.nvidia.gpus import GpuState
from tarmac.agent.devices.nvidia.pluginmessages import (
    OPTIONS,
    ContainerSettings,
    allocate_request,
    allocate_response,
    device_list,
    registration,
)
from tarmac.agent.devices.socketname import SOCKET
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.http.grpc import Code, GrpcConnection, GrpcError
from tarmac.http.grpcserver import GrpcServer

VERSION: Final = "v1beta1"
_SERVICE: Final = "v1beta1.DevicePlugin/"
_CONNECTIONS: Final = 16
_INTERVAL: Final = 1.0
_REGISTER_TIMEOUT: Final = 10.0
_log = log("nvidia")

Settings = Callable[[Sequence[GpuState]], ContainerSettings]
"""Returns the settings of a container that gets these GPUs."""


class ModelPlugin:
    """The plugin of one resource. `states` returns its GPUs by UUID."""

    def __init__(
        self,
        folder: Path,
        resource: str,
        states: Callable[[], Mapping[str, GpuState]],
        settings: Settings,
        clock: Clock,
    ) -> None:
        self.resource = resource
        self._socket = folder / f"tarmac-{resource.rpartition('/')[2]}.sock"
        self._agent = folder / SOCKET
        self._states = states
        self._settings = settings
        self._clock = clock
        self._changed = asyncio.Event()
        self._server: GrpcServer | None = None
        self._listening: asyncio.Server | None = None
        self._registered_at: tuple[int, int] | None = None

    def wake(self) -> None:
        """Send the list again: a GPU came, or its health changed."""
        # Replaced, not only cleared: each stream waits for the event that it took before its list.
        self._changed.set()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            while True:
                try:
                    await self._stay_registered()
                except (OSError, GrpcError, TimeoutError) as error:
                    _log.warning("registration failed, retrying", resource=self.resource, why=str(error) or "timeout")
                await self._clock.sleep(_INTERVAL)
        finally:
            await self._stop()

    async def _stay_registered(self) -> None:
        """Listen and register, unless both sockets are those of the last registration. Raises OSError, GrpcError."""
        found = _identity(self._agent)
        if found is None or (found == self._registered_at and _identity(self._socket) is not None):
            return
        await self._stop()
        # Before the registration: the agent connects back before it answers that.
        await self._listen()
        await self._register()
        # As found before the registration: an agent that restarts during it has another socket, and the next round
        # registers again.
        self._registered_at = found
        _log.info("registered", resource=self.resource, gpus=len(self._states()))

    async def _listen(self) -> None:
        self._socket.unlink(missing_ok=True)  # of a plugin that was killed
        server = GrpcServer(self.answer, _CONNECTIONS, self._streams)
        self._listening = await asyncio.get_running_loop().create_unix_server(server.connection, str(self._socket))
        self._server = server
        self._socket.chmod(0o600)

    async def _register(self) -> None:
        async with asyncio.timeout(_REGISTER_TIMEOUT):
            _, connection = await asyncio.get_running_loop().create_unix_connection(
                lambda: GrpcConnection("localhost"), str(self._agent)
            )
        try:
            message = registration(VERSION, self._socket.name, self.resource)
            await connection.call("v1beta1.Registration/Register", message, _REGISTER_TIMEOUT)
        finally:
            connection.close()

    async def _stop(self) -> None:
        self._registered_at = None
        if self._listening is not None:
            self._listening.close()
        if self._server is not None:
            await self._server.close()
        self._listening = self._server = None
        with suppress(OSError):
            self._socket.unlink(missing_ok=True)

    # --- the service ------------------------------------------------------------------------------------------------

    async def answer(self, method: str, message: bytes) -> bytes:
        """Handle one unary call. Raises GrpcError."""
        match method.removeprefix(_SERVICE):
            case "GetDevicePluginOptions":
                return OPTIONS
            case "Allocate":
                return self._allocated(message)
            case _:
                raise GrpcError(Code.UNIMPLEMENTED, f"unknown method {method}")

    def _streams(self, method: str) -> AsyncGenerator[bytes] | None:
        return self._lists() if method == f"{_SERVICE}ListAndWatch" else None

    async def _lists(self) -> AsyncGenerator[bytes]:
        while True:
            changed = self._changed  # before the list: a change during the send is not missed
            yield device_list({uuid: state.healthy for uuid, state in self._states().items()})
            await changed.wait()

    def _allocated(self, message: bytes) -> bytes:
        try:
            requests = allocate_request(message)
        except ValueError as error:
            raise GrpcError(Code.INVALID_ARGUMENT, "a request that is no message of the device plugin API") from error
        return allocate_response(self._settings(self._named(ids)) for ids in requests)

    def _named(self, ids: Sequence[str]) -> list[GpuState]:
        states = self._states()
        if unknown := next((each for each in ids if each not in states), None):
            raise GrpcError(Code.INVALID_ARGUMENT, f"{self.resource} has no GPU {unknown[:64]!r}")
        if sick := next((states[each] for each in ids if not states[each].healthy), None):
            raise GrpcError(Code.FAILED_PRECONDITION, f"GPU {sick.gpu.uuid} is unhealthy: {sick.reason}")
        return [states[each] for each in ids]


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of a socket, which changes when it is made anew; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns
