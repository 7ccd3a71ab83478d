"""`kubernetes-asyncio`: create, read, patch, watch, delete."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio import client, config, watch

# The library leaks sockets and uses deprecated calls; these tests ignore both.
pytestmark = pytest.mark.filterwarnings("ignore")

NAMESPACE = "asyncio-client"


async def test_create_patch_watch_and_delete(kubeconfig: Path) -> None:
    settings: Any = client.Configuration()
    await config.load_kube_config(str(kubeconfig), client_configuration=settings)
    async with client.ApiClient(settings) as connection:
        core: Any = client.CoreV1Api(connection)
        await core.create_namespace({"metadata": {"name": NAMESPACE}})
        listed = await core.list_namespaced_config_map(NAMESPACE)
        changing = asyncio.create_task(_changes(core))
        seen: list[str] = []
        async with watch.Watch() as stream:
            source: Any = stream.stream(
                core.list_namespaced_config_map, NAMESPACE,
                resource_version=listed.metadata.resource_version, label_selector="suite=asyncio", timeout_seconds=20,
            )  # fmt: skip
            async for event in source:
                seen.append(event["type"])
                if event["type"] == "DELETED":
                    break
        await changing
    assert seen == ["ADDED", "MODIFIED", "DELETED"]


async def _changes(core: Any) -> None:
    body = {"metadata": {"name": "thing", "labels": {"suite": "asyncio"}}, "data": {"n": "1"}}
    made = await core.create_namespaced_config_map(NAMESPACE, body)
    assert made.data == {"n": "1"}
    patched = await core.patch_namespaced_config_map("thing", NAMESPACE, {"data": {"n": "2"}})
    assert patched.data == {"n": "2"}
    assert (await core.read_namespaced_config_map("thing", NAMESPACE)).data == {"n": "2"}
    await core.delete_namespaced_config_map("thing", NAMESPACE)
