"""A node reads exactly the objects that its pods refer to, watches them, and keeps them while the server is away.

Tested with the whole server in this process as a node's user: requests that the node authorizer denies would fail.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.sources.apisources import ApiSources
from tarmac.agent.sources.references import PodObjectReference, references
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.apps.control_plane import local_transport
from tarmac.base.clock import ManualClock
from tarmac.client.client import Client
from tarmac.client.errors import Disconnected
from tarmac.client.targets.untyped import CONFIG_MAPS, NODES, PODS, SECRETS, SERVICE_ACCOUNTS, VOLUME_CLAIMS, VOLUMES
from tarmac.client.transport import ClientRequest, Reply, StreamReply, Transport
from tarmac.server.security.users import User
from tarmac.volumes.interface import SourceUnavailable
from tests.client.backends import ADMIN, our_server

NODE = User("system:node:here", groups=("system:nodes", "system:authenticated"))


class Cable:
    """A transport that can be disconnected."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.unplugged = False
        self.requests: list[str] = []

    async def request(self, request: ClientRequest) -> Reply:
        self.requests.append(f"{request.method} {request.path}")
        if self.unplugged:
            raise Disconnected("unplugged")
        return await self._inner.request(request)

    @asynccontextmanager
    async def stream(self, request: ClientRequest) -> AsyncGenerator[StreamReply]:
        self.requests.append(f"WATCH {request.path}?{request.query}")
        if self.unplugged:
            raise Disconnected("unplugged")
        async with self._inner.stream(request) as reply:
            yield reply

    def shared(self, group: str, plural: str, key: str, raw: bytes) -> bytes:
        return raw

    async def close(self) -> None:
        await self._inner.close()


class World:
    """A server, an admin, and the sources of the node `here`."""

    def __init__(self, admin: Client, cable: Cable, clock: ManualClock) -> None:
        self.admin, self.cable, self.clock = admin, cable, clock
        self.told: list[str] = []
        self.sources = ApiSources(Client(cable, clock), self.told.append)

    async def create(self, target: Any, name: str, **fields: Any) -> JsonObject:
        kind = {"apiVersion": target.api_version, "kind": target.kind}
        namespace = {"namespace": "default"} if target.namespaced else {}
        return await self.admin.resource(target).create({**kind, "metadata": {"name": name, **namespace}, **fields})

    async def pod(self, name: str, node: str = "here", **spec: Any) -> JsonObject:
        container = {"name": "main", "image": "registry.example/app:1"}
        base = {"nodeName": node, "serviceAccountName": "default", "containers": [container]}
        return await self.create(PODS, name, spec={**base, "automountServiceAccountToken": False, **spec})

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(5):
            while not condition():
                await asyncio.sleep(0.005)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with our_server(tmp_path) as running:
        clock = ManualClock()
        cable = Cable(local_transport(running.server, NODE))
        made = World(Client(local_transport(running.server, ADMIN)), cable, clock)
        await made.create(NODES, "here")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(made.sources.run())
            async with asyncio.timeout(10):
                while True:
                    try:
                        await made.admin.resource(SERVICE_ACCOUNTS).get("default", "default")
                        break
                    except NotFound:
                        await asyncio.sleep(0.02)
            yield made
            task.cancel()


def config_volume(name: str) -> JsonObject:
    return {"name": "config", "configMap": {"name": name}}


def secret_volume(name: str) -> JsonObject:
    return {"name": "secret", "secret": {"secretName": name}}


def test_every_way_to_refer_to_an_object_counts() -> None:
    def ref(kind: str) -> JsonObject:
        return {"name": kind}

    container = {
        "envFrom": [{"configMapRef": ref("c1")}, {"secretRef": ref("s1")}],
        "env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": ref("c2")}},
            {"name": "B", "valueFrom": {"secretKeyRef": ref("s2")}},
            {"name": "C", "value": "plain"},
        ],
    }
    sources = [{"configMap": ref("c4")}, {"secret": ref("s4")}, {"serviceAccountToken": {"path": "t"}}]
    spec = {
        "containers": [container],
        "volumes": [config_volume("c3"), secret_volume("s3"), {"name": "p", "projected": {"sources": sources}}],
        "imagePullSecrets": [ref("s5")],
    }
    found = references({"metadata": {"namespace": "default"}, "spec": spec})
    wanted = {PodObjectReference("configmaps", "default", f"c{i}") for i in (1, 2, 3, 4)}
    assert found == wanted | {PodObjectReference("secrets", "default", f"s{i}") for i in (1, 2, 3, 4, 5)}


async def test_a_referenced_object_is_watched_by_its_name_alone(world: World) -> None:
    await world.create(CONFIG_MAPS, "settings", data={"colour": "red"})
    await world.create(CONFIG_MAPS, "other", data={"colour": "grey"})
    pod = await world.pod("web", volumes=[config_volume("settings")])
    world.sources.follow(pod)
    found = await world.sources.config_map("default", "settings")
    assert found is not None
    assert found["data"] == {"colour": "red"}
    watches = [each for each in world.cable.requests if each.startswith("WATCH")]
    assert len(watches) == 1
    assert "fieldSelector=metadata.name%3Dsettings" in watches[0]
    assert not [each for each in world.cable.requests if each.startswith("GET")]


async def test_an_object_without_a_reference_from_a_pod_here_cannot_be_read(world: World) -> None:
    await world.create(SECRETS, "foreign", data={"key": base64.b64encode(b"1").decode()})
    with pytest.raises(SourceUnavailable, match="no relationship found between node 'here' and this object"):
        await world.sources.secret("default", "foreign")


async def test_pods_hear_of_objects_that_come_change_and_go(world: World) -> None:
    pod = await world.pod("web", volumes=[config_volume("settings")])
    uid = pod["metadata"]["uid"]
    world.sources.follow(pod)
    assert await world.sources.config_map("default", "settings") is None
    await world.create(CONFIG_MAPS, "settings", data={"colour": "red"})
    await world.until(lambda: world.told == [uid])
    await world.admin.resource(CONFIG_MAPS).patch("settings", {"data": {"colour": "blue"}}, "default")
    await world.until(lambda: world.told == [uid, uid])
    found = await world.sources.config_map("default", "settings")
    assert found is not None
    assert found["data"]["colour"] == "blue"
    await world.admin.resource(CONFIG_MAPS).delete("settings", "default")
    await world.until(lambda: len(world.told) == 3)
    assert await world.sources.config_map("default", "settings") is None


async def test_known_objects_outlive_the_server(world: World) -> None:
    await world.create(SECRETS, "keys", data={"key": "MQ=="})
    pod = await world.pod("web", volumes=[secret_volume("keys"), config_volume("unknown")])
    world.sources.follow(pod)
    await world.sources.secret("default", "keys")
    world.cable.unplugged = True
    found = await world.sources.secret("default", "keys")
    assert found is not None
    assert found["data"] == {"key": "MQ=="}
    with pytest.raises(SourceUnavailable, match="unplugged"):
        await world.sources.claim("default", "disk")


async def test_a_watch_ends_a_while_after_its_last_pod(world: World) -> None:
    await world.create(CONFIG_MAPS, "settings")
    first = await world.pod("first", volumes=[config_volume("settings")])
    second = await world.pod("second", volumes=[config_volume("settings")])
    world.sources.follow(first)
    world.sources.follow(second)
    await world.sources.config_map("default", "settings")
    world.sources.unfollow(first["metadata"]["uid"])
    world.clock.advance(120)
    await asyncio.sleep(0.01)
    assert len(world.sources._watched) == 1
    world.sources.unfollow(second["metadata"]["uid"])
    world.sources.unfollow(second["metadata"]["uid"])
    for _ in range(3):
        world.clock.advance(60)
        await asyncio.sleep(0.01)
    assert len(world.sources._watched) == 0


async def test_an_immutable_object_is_not_watched_once_known(world: World) -> None:
    await world.create(CONFIG_MAPS, "fixed", data={"a": "1"}, immutable=True)
    pod = await world.pod("web", volumes=[config_volume("fixed")])
    world.sources.follow(pod)
    await world.sources.config_map("default", "fixed")
    watched = world.sources._watched.get(PodObjectReference("configmaps", "default", "fixed"))
    assert watched is not None
    await world.until(lambda: watched.task is not None and watched.task.done())
    assert await world.sources.config_map("default", "fixed") is not None


async def test_a_pods_claim_and_its_volume_are_read_and_its_size_is_told(world: World) -> None:
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "volumeName": "pv-1", "resources": resources, "storageClassName": "x"}
    claim = await world.create(VOLUME_CLAIMS, "disk", spec=spec)
    reference = {"name": "disk", "namespace": "default", "uid": claim["metadata"]["uid"]}
    volume = {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    await world.create(VOLUMES, "pv-1", spec={**volume, "claimRef": reference, "storageClassName": "x"})
    await world.pod("web", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}])
    claimed = await world.sources.claim("default", "disk")
    assert claimed is not None
    assert await world.sources.persistent_volume("pv-1") is not None
    pending = [{"type": "FileSystemResizePending", "status": "True"}, {"type": "Other", "status": "True"}]
    status = {"status": {"conditions": pending, "phase": "Bound"}}
    await world.admin.resource(VOLUME_CLAIMS).patch("disk", status, "default", subresource="status")
    claimed = await world.sources.claim("default", "disk")
    assert claimed is not None
    await world.sources.resized(claimed, "2Gi")
    after = await world.admin.resource(VOLUME_CLAIMS).get("disk", "default")
    assert after["status"]["capacity"] == {"storage": "2Gi"}
    assert [each["type"] for each in after["status"]["conditions"]] == ["Other"]
    world.cable.unplugged = True
    assert await world.sources.persistent_volume("pv-1") is not None
