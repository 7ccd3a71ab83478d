"""The in-process client: the store's bytes, and Tarmac's own kinds, typed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tarmac.api.compute.instancetype import InstanceType
from tarmac.api.compute.names import API_VERSION
from tarmac.apps.control_plane import local_transport
from tarmac.client.client import Client
from tarmac.client.informer import Informers
from tarmac.client.targets.target import declared
from tarmac.client.targets.untyped import CONFIG_MAPS, SECRETS
from tests.client.backends import ADMIN, our_server

INSTANCE_TYPES = declared(InstanceType, API_VERSION, "instancetypes", namespaced=False)


async def test_an_informers_copy_is_the_stores_own_memory(tmp_path: Path) -> None:
    async with our_server(tmp_path) as running:
        client = Client(local_transport(running.server, ADMIN))
        informers = Informers(client)
        maps, secrets = informers.informer(CONFIG_MAPS), informers.informer(SECRETS)
        resource = client.resource(CONFIG_MAPS)
        await resource.create({"metadata": {"name": "listed", "namespace": "default"}})
        await client.resource(SECRETS).create({"metadata": {"name": "s", "namespace": "default"}})
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            task = group.create_task(informers.run())
            await informers.synced()
            await resource.create({"metadata": {"name": "watched", "namespace": "default"}})
            while "default/watched" not in maps.cache:
                await asyncio.sleep(0)
            task.cancel()
        for informer in (maps, secrets):
            for item in informer.cache.items():
                entry = running.store.get(f"core/{informer.target.plural}", item.key)
                assert entry is not None
                assert item.raw is entry.raw, item.key


async def test_declared_kinds_are_read_and_written_typed(tmp_path: Path) -> None:
    async with our_server(tmp_path) as running:
        client = Client(local_transport(running.server, ADMIN))
        types = client.resource(INSTANCE_TYPES)
        first = next(each for each in (await types.list()).items if each.spec.resources)
        copied = InstanceType(metadata=type(first.metadata)(name="copy-of-it"), spec=first.spec)
        created = await types.create(copied)
        assert created.spec == first.spec
        assert created.metadata.uid != first.metadata.uid
