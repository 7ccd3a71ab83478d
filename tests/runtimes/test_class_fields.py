"""QoS classes in CRI: Tarmac's own field numbers, sent only to runtimes that announce classes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tarmac.runtimes.cri import decode, encode
from tarmac.runtimes.cri._generated import cri_subset_pb2 as pb
from tarmac.runtimes.cri.criruntime import CriRuntime
from tarmac.runtimes.cri.specs import merged
from tarmac.runtimes.interface import (
    ContainerConfig,
    PodIdentity,
    Resources,
    RuntimeClasses,
    RuntimeClassType,
    RuntimeRefused,
    SandboxConfig,
)

SANDBOX = SandboxConfig(PodIdentity("default", "web", "u"), "web", "/logs", "/pods/u")
CONTAINER = ContainerConfig("main", 0, "image", "image")


def fields(message: bytes) -> dict[int, bytes | int]:
    """Return field numbers and values of a serialized message, as any parser of protobuf does."""
    found: dict[int, bytes | int] = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = number()
        size = number()
        if key & 7 == 2:
            found[key >> 3] = message[at : at + size]
            at += size
        else:
            found[key >> 3] = size
    return found


def test_field_numbers() -> None:
    slow = {"blockio": "slow"}
    entry = b"\n\x0f\n\x07blockio\x12\x04slow"
    config = encode.container_message(_with(CONTAINER, classes=slow), "s", SANDBOX)
    assert fields(config.SerializeToString())[1017] == entry
    assert fields(encode.sandbox_message(_with(SANDBOX, classes=slow)).SerializeToString())[1010] == entry
    update = pb.UpdateContainerResourcesRequest(class_resources=pb.ContainerClassResources(classes=slow))
    assert fields(update.SerializeToString()) == {1005: entry}
    told = pb.ContainerStatus(class_resources=pb.ContainerClassResources(classes=slow))
    assert fields(told.SerializeToString()) == {1020: entry}
    whole = pb.UpdatePodSandboxConfigRequest(class_resources=pb.PodClassResources(classes=slow))
    assert fields(whole.SerializeToString()) == {2: entry}


def test_without_classes_nothing_of_it_is_sent() -> None:
    assert 1017 not in fields(encode.container_message(CONTAINER, "s", SANDBOX).SerializeToString())
    assert 1010 not in fields(encode.sandbox_message(SANDBOX).SerializeToString())
    assert decode.classes(pb.RuntimeStatus()) is None, "a stock runtime announces nothing"


def _with(config: Any, **more: Any) -> Any:
    from dataclasses import replace

    return replace(config, **more)


class Server:
    """A runtime with QoS classes, limited to the driver's calls for them."""

    def __init__(self) -> None:
        self.updates: list[pb.UpdateContainerResourcesRequest] = []
        self.of_pods: list[pb.UpdatePodSandboxConfigRequest] = []
        self.refuse = ""

    def handlers(self) -> Iterator[tuple[str, Any]]:
        yield "Version", self._version
        yield "Status", self._status
        yield "UpdateContainerResources", self._update
        yield "UpdatePodSandboxConfig", self._update_pod
        yield "ContainerStatus", self._container

    async def _version(self, _: bytes, context: Any) -> pb.VersionResponse:
        return pb.VersionResponse(runtime_name="native", runtime_version="1")

    async def _status(self, _: bytes, context: Any) -> pb.StatusResponse:
        known = [pb.ClassResourceClassInfo(name="slow", capacity=2), pb.ClassResourceClassInfo(name="fast")]
        resources = pb.ResourcesInfo(
            pod_class_resources=[pb.ClassResourceInfo(name="net", classes=known, immutable=True)],
            container_class_resources=[pb.ClassResourceInfo(name="blockio", classes=known)],
        )
        return pb.StatusResponse(status=pb.RuntimeStatus(resources=resources))

    async def _update(self, request: bytes, context: Any) -> pb.Nothing:
        if self.refuse:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refuse)
        self.updates.append(pb.UpdateContainerResourcesRequest.FromString(request))
        return pb.Nothing()

    async def _update_pod(self, request: bytes, context: Any) -> pb.Nothing:
        self.of_pods.append(pb.UpdatePodSandboxConfigRequest.FromString(request))
        return pb.Nothing()

    async def _container(self, _: bytes, context: Any) -> pb.ContainerStatusResponse:
        classes = pb.ContainerClassResources(classes={"blockio": "slow"})
        return pb.ContainerStatusResponse(status=pb.ContainerStatus(id="c", class_resources=classes))


@pytest.fixture
async def native(tmp_path: Path) -> AsyncIterator[tuple[Server, CriRuntime]]:
    server, made = grpc.aio.server(), Server()
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(call, response_serializer=lambda reply: reply.SerializeToString())
        for name, call in made.handlers()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", handlers),))
    server.add_insecure_port(f"unix://{tmp_path}/c.sock")
    await server.start()
    runtime = CriRuntime(f"unix://{tmp_path}/c.sock")
    yield made, runtime
    await runtime.close()
    await server.stop(None)


async def test_announced_and_effective_classes_are_decoded(native: tuple[Server, CriRuntime]) -> None:
    _, runtime = native
    classes = {"slow": 2, "fast": 0}
    assert (await runtime.status()).classes == RuntimeClasses(
        (RuntimeClassType("net", classes, immutable=True),), (RuntimeClassType("blockio", classes),)
    )
    assert (await runtime.container("c")).classes == {"blockio": "slow"}


async def test_an_update_names_what_changes_and_nothing_else(native: tuple[Server, CriRuntime]) -> None:
    server, runtime = native
    await runtime.update_container("c", None, {"blockio": "fast"})
    await runtime.update_container("c", Resources(cpu_shares=2))
    await runtime.update_sandbox("s", {"net": "slow"})
    first, second = server.updates
    assert not first.HasField("linux")
    assert dict(first.class_resources.classes) == {"blockio": "fast"}
    assert second.linux.cpu_shares == 2
    assert not second.HasField("class_resources")
    assert dict(server.of_pods[0].class_resources.classes) == {"net": "slow"}


async def test_a_refused_update_says_why_in_the_runtimes_words(native: tuple[Server, CriRuntime]) -> None:
    server, runtime = native
    server.refuse = "no class fast here"
    with pytest.raises(RuntimeRefused, match="no class fast here"):
        await runtime.update_container("c", Resources(cpu_shares=2), {"blockio": "fast"})
    assert server.updates == []


async def test_a_runtime_that_is_no_containerd_lets_nobody_change_specifications(
    native: tuple[Server, CriRuntime],
) -> None:
    with pytest.raises(RuntimeRefused, match="lets nobody change"):
        await native[1].amend_spec("c", {"linux": {}})


def test_fields_without_a_change_stay_in_a_specification() -> None:
    before = {"process": {"args": ["x"]}, "linux": {"resources": {"blockIO": {"weight": 5}, "cpu": {}}, "intelRdt": {}}}
    changes = {"linux": {"resources": {"blockIO": {"weight": 7}}, "intelRdt": None}}
    assert merged(before, changes) == {
        "process": {"args": ["x"]},
        "linux": {"resources": {"blockIO": {"weight": 7}, "cpu": {}}},
    }
