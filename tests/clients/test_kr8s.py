"""kr8s: create, read, patch, label, watch, delete."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import kr8s.asyncio
import pytest
from kr8s.asyncio.objects import ConfigMap, Namespace

# The library leaks sockets and uses deprecated calls; these tests ignore both.
pytestmark = pytest.mark.filterwarnings("ignore")

NAMESPACE = "kr8s-client"


async def test_create_patch_label_watch_and_delete(kubeconfig: Path) -> None:
    api: Any = await kr8s.asyncio.api(kubeconfig=str(kubeconfig))
    await (await Namespace({"metadata": {"name": NAMESPACE}}, api=api)).create()
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "thing", "namespace": NAMESPACE, "labels": {"suite": "kr8s"}},
        "data": {"n": "1"},
    }
    seen: list[str] = []

    async def follow() -> None:
        async for kind, _ in api.watch("configmaps", namespace=NAMESPACE, label_selector="suite=kr8s"):
            seen.append(kind)
            if kind == "DELETED":
                return

    following = asyncio.create_task(follow())
    await asyncio.sleep(0.5)  # the library does not report when its watch is open
    thing: Any = await ConfigMap(body, api=api)
    await thing.create()
    assert await thing.exists()
    await thing.patch({"data": {"n": "2"}})
    assert thing.raw["data"] == {"n": "2"}
    await thing.label({"extra": "yes"})
    listed = [item.name async for item in api.get("configmaps", namespace=NAMESPACE, label_selector="extra=yes")]
    assert listed == ["thing"]
    await thing.delete()
    await asyncio.wait_for(following, 20)
    assert seen == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
