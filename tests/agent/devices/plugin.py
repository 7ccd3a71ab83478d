"""A device plugin on gRPC's own library, with behaviour that tests can change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from tarmac.agent.devices._generated import deviceplugin_subset_pb2 as pb

RESOURCE = "example.com/gpu"
VERSION = "v1beta1"

Answering = Callable[[list[str]], Awaitable[pb.ContainerAllocateResponse]]


class DevicePlugin:
    """Devices by id and health. `calls` records each method with the ids of its request."""

    def __init__(
        self,
        folder: Path,
        resource: str = RESOURCE,
        socket: str = "gpu.sock",
        *,
        prefers: bool = False,
        pre_start: bool = False,
    ) -> None:
        self.folder = folder
        self.resource = resource
        self.socket = socket
        self.options = pb.DevicePluginOptions(get_preferred_allocation_available=prefers, pre_start_required=pre_start)
        self.devices: dict[str, str] = {"g0": "Healthy", "g1": "Healthy"}
        self.calls: list[tuple[str, list[str]]] = []
        self.preferred: list[str] = []
        self.refuses: dict[str, str] = {}
        """The error that each method returns instead of a response."""
        self.held: dict[str, asyncio.Event] = {}
        """Methods that respond only when these events are set."""
        self.answer: Callable[[list[str]], pb.ContainerAllocateResponse] = usual_answer
        self.lists: Callable[[], AsyncIterator[bytes]] = self._usual_lists
        self.raw_answer: bytes | None = None
        self.listeners = 0
        self._changed = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Start to listen."""
        self._server = grpc.aio.server()
        one = {
            "GetDevicePluginOptions": self._options,
            "GetPreferredAllocation": self._prefer,
            "Allocate": self._allocate,
            "PreStartContainer": self._pre_start,
        }
        handlers: dict[str, Any] = {name: grpc.unary_unary_rpc_method_handler(does) for name, does in one.items()}
        handlers["ListAndWatch"] = grpc.unary_stream_rpc_method_handler(self._list)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers),))
        self._server.add_insecure_port(f"unix://{self.folder / self.socket}")
        await self._server.start()

    async def stop(self) -> None:
        """Stop without notice."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def register(self, resource: str = "") -> None:
        """Register with the agent. Raises grpc.aio.AioRpcError."""
        await register(self.folder, asked(endpoint=self.socket, resource=resource or self.resource))

    def set(self, devices: Mapping[str, str]) -> None:
        """Replace the devices."""
        self.devices = dict(devices)
        self._changed.set()

    def asked(self, method: str) -> list[list[str]]:
        """Return the ids of every call of a method."""
        return [ids for name, ids in self.calls if name == method]

    async def _options(self, _: bytes, context: Any) -> bytes:
        await self._as_told("GetDevicePluginOptions", [], context)
        return self.options.SerializeToString()

    async def _list(self, _: bytes, context: Any) -> AsyncIterator[bytes]:
        self.listeners += 1
        try:
            async for each in self.lists():
                yield each
        finally:
            self.listeners -= 1

    async def _usual_lists(self) -> AsyncIterator[bytes]:
        while True:
            self._changed.clear()
            yield listed(self.devices)
            await self._changed.wait()

    async def _prefer(self, request: bytes, context: Any) -> bytes:
        asked = pb.PreferredAllocationRequest.FromString(request).container_requests[0]
        await self._as_told("GetPreferredAllocation", list(asked.available_deviceIDs), context)
        response = pb.ContainerPreferredAllocationResponse(deviceIDs=self.preferred)
        return pb.PreferredAllocationResponse(container_responses=[response]).SerializeToString()

    async def _allocate(self, request: bytes, context: Any) -> bytes:
        ids = list(pb.AllocateRequest.FromString(request).container_requests[0].devices_ids)
        await self._as_told("Allocate", ids, context)
        if self.raw_answer is not None:
            return self.raw_answer
        return pb.AllocateResponse(container_responses=[self.answer(ids)]).SerializeToString()

    async def _pre_start(self, request: bytes, context: Any) -> bytes:
        ids = list(pb.PreStartContainerRequest.FromString(request).devices_ids)
        await self._as_told("PreStartContainer", ids, context)
        return b""

    async def _as_told(self, method: str, ids: list[str], context: Any) -> None:
        self.calls.append((method, ids))
        if method in self.held:
            await self.held[method].wait()
        if method in self.refuses:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refuses[method])


def listed(devices: Mapping[str, str]) -> bytes:
    """Encode a device list for the wire."""
    found = [pb.Device(ID=device, health=health) for device, health in devices.items()]
    return pb.ListAndWatchResponse(devices=found).SerializeToString()


def usual_answer(ids: list[str]) -> pb.ContainerAllocateResponse:
    """Return a response with a variable, a mount and a device for each id."""
    return pb.ContainerAllocateResponse(
        envs={"GPUS": ",".join(ids)},
        mounts=[pb.Mount(container_path=f"/gpu/{device}", host_path="/dev/null", read_only=True) for device in ids],
        devices=[
            pb.DeviceSpec(container_path=f"/dev/{device}", host_path="/dev/zero", permissions="rw") for device in ids
        ],
        annotations={"example.com/gpus": ",".join(ids)},
        cdi_devices=[pb.CDIDevice(name=f"{RESOURCE}={device}") for device in ids],
    )


def asked(version: str = VERSION, endpoint: str = "gpu.sock", resource: str = RESOURCE) -> pb.RegisterRequest:
    """Return a registration request."""
    return pb.RegisterRequest(version=version, endpoint=endpoint, resource_name=resource)


async def register(folder: Path, request: pb.RegisterRequest) -> None:
    """Register with the agent, as plugins do. Raises grpc.aio.AioRpcError."""
    async with grpc.aio.insecure_channel(f"unix://{folder / 'kubelet.sock'}") as channel:
        call: Any = channel.unary_unary("/v1beta1.Registration/Register")  # pyright: ignore[reportCallIssue]
        await call(request.SerializeToString(), timeout=15)


@asynccontextmanager
async def running(plugin: DevicePlugin) -> AsyncGenerator[DevicePlugin]:
    """Run a plugin that listens and has registered."""
    await plugin.start()
    try:
        await plugin.register()
        yield plugin
    finally:
        await plugin.stop()
