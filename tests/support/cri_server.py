"""A tiny CRI server for tests of the driver's edges: it lists the sandbox of one pod and sends events on request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from tarmac.runtimes.cri._generated import cri_subset_pb2 as pb


class CriServer:
    """A server with or without GetContainerEvents (`has_events`). `ready` is the state of its one sandbox.

    Every command prints `output`. For each uid in `events` the server reports that the container `container` of that
    pod was started.
    """

    def __init__(self, socket: Path, *, has_events: bool) -> None:
        self._socket = socket
        self._has_events = has_events
        self.ready = True
        self.events: asyncio.Queue[str] = asyncio.Queue()
        self.starting = False
        self.output = b""
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self._server = grpc.aio.server()
        handlers: dict[str, Any] = {
            "ListPodSandbox": grpc.unary_unary_rpc_method_handler(
                self._list_sandboxes, response_serializer=pb.ListPodSandboxResponse.SerializeToString
            ),
            "ListContainers": grpc.unary_unary_rpc_method_handler(
                self._list_containers, response_serializer=pb.ListContainersResponse.SerializeToString
            ),
        }
        handlers["ExecSync"] = grpc.unary_unary_rpc_method_handler(
            self._exec, response_serializer=pb.ExecSyncResponse.SerializeToString
        )
        if self._has_events:
            handlers["GetContainerEvents"] = grpc.unary_stream_rpc_method_handler(
                self._tell, response_serializer=pb.ContainerEventResponse.SerializeToString
            )
        service = grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", handlers)
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix://{self._socket}")
        await self._server.start()

    async def stop(self) -> None:
        """Close all connections."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def _list_sandboxes(self, _: bytes, context: Any) -> pb.ListPodSandboxResponse:
        if self.starting:
            await context.abort(grpc.StatusCode.UNKNOWN, "server is not initialized yet")
        metadata = pb.PodSandboxMetadata(name="pod", uid="uid")
        state = pb.SANDBOX_READY if self.ready else pb.SANDBOX_NOTREADY
        return pb.ListPodSandboxResponse(items=[pb.PodSandbox(id="sandbox", metadata=metadata, state=state)])

    async def _exec(self, _: bytes, context: Any) -> pb.ExecSyncResponse:
        return pb.ExecSyncResponse(stdout=self.output)

    async def _list_containers(self, _: bytes, context: Any) -> pb.ListContainersResponse:
        return pb.ListContainersResponse()

    async def _tell(self, _: bytes, context: Any) -> AsyncIterator[pb.ContainerEventResponse]:
        while True:
            metadata = pb.PodSandboxMetadata(uid=await self.events.get())
            yield pb.ContainerEventResponse(
                container_id="container",
                container_event_type=pb.CONTAINER_STARTED_EVENT,
                pod_sandbox_status=pb.PodSandboxStatus(metadata=metadata),
            )
