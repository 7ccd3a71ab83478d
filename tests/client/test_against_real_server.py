"""The client against the real server: restarts, compacted history, credentials."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
import pytest

from tarmac.api.status import AlreadyExists, ApiError, Forbidden, Gone, Unauthorized
from tarmac.client.cache import Item
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.informer import Informers
from tarmac.client.kubeconfig import load
from tarmac.client.resourceclient import ResourceClient
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import CONFIG_MAPS
from tests.support.peer import Peer, running_peer

pytestmark = pytest.mark.peers
Json = dict[str, Any]


@pytest.fixture
async def by_certificate(peer: Peer) -> AsyncGenerator[Client]:
    client = Client(HttpTransport(load(str(peer.kubeconfig)).http))
    yield client
    await client.close()


async def _client(peer: Peer, **config: Any) -> Client:
    return Client(HttpTransport(HttpConfig(peer.url, ca=peer.ca, **config)))


async def test_a_kubeconfig_with_a_certificate_is_enough(by_certificate: Client) -> None:
    reviews = dynamic("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
    answer = await by_certificate.resource(reviews).create({"metadata": {}})
    assert answer["status"]["userInfo"]["username"] == "admin"


async def test_those_without_rights_are_told_so(peer: Peer) -> None:
    nobody = await _client(peer, token=peer.nobody_token)
    with pytest.raises(Forbidden, match='User "nobody" cannot list resource "configmaps"'):
        await nobody.resource(CONFIG_MAPS).list("default")
    await nobody.close()
    stranger = await _client(peer, token="wrong")
    with pytest.raises(Unauthorized):
        await stranger.resource(CONFIG_MAPS).list("default")
    await stranger.close()


async def test_a_token_file_is_read_again(peer: Peer, tmp_path: Any) -> None:
    file = tmp_path / "token"
    file.write_text(peer.token + "\n")
    client = await _client(peer, token_file=str(file))
    await client.resource(CONFIG_MAPS).list("default")
    await client.close()


@pytest.mark.slow
async def test_an_informer_misses_and_invents_nothing_over_a_restart_of_the_server() -> None:
    """The real server may have lost its history with its cache, so it may answer 410:

    relisting is fine, gaps are not.
    """
    with running_peer() as peer:
        client = await _client(peer, token=peer.token)
        maps = client.resource(CONFIG_MAPS)
        informers = Informers(client)
        informer = informers.informer(CONFIG_MAPS, namespace="default")
        heard: list[str] = []

        def hear(old: Item[Json] | None, new: Item[Json] | None) -> None:
            item = new or old
            assert item is not None
            heard.append(f"{'+' if old is None else '-' if new is None else '~'}{item.metadata.name}")

        informer.on_change(hear)
        async with asyncio.timeout(50), asyncio.TaskGroup() as group:
            running = group.create_task(informers.run())
            await informer.synced()
            await maps.create({"metadata": {"name": "before", "namespace": "default"}})
            await asyncio.to_thread(peer.restart)
            await _create_once_it_can(maps, "after")
            while "+after" not in heard:
                await asyncio.sleep(0.05)
            running.cancel()
        await client.close()
        assert [each for each in heard if "kube-root" not in each] == ["+before", "+after"]


async def _create_once_it_can(maps: ResourceClient[Json], name: str) -> None:
    """A connection from before the kill may break under the first request after it."""
    while True:
        try:
            await maps.create({"metadata": {"name": name, "namespace": "default"}})
        except AlreadyExists:
            return
        except (ApiError, ClientError):
            await asyncio.sleep(0.1)
        else:
            return


@pytest.mark.slow
async def test_history_that_is_gone_is_gone() -> None:
    with running_peer() as peer:
        client = await _client(peer, token=peer.token)
        maps = client.resource(CONFIG_MAPS)
        first = await maps.create({"metadata": {"name": "a", "namespace": "default"}})
        last = await maps.create({"metadata": {"name": "b", "namespace": "default"}})
        compaction = {"revision": last["metadata"]["resourceVersion"], "physical": True}
        async with aiohttp.ClientSession() as etcd:
            await etcd.post(f"{peer.etcd_url}/v3/kv/compaction", json=compaction)
        await client.close()
        await asyncio.to_thread(peer.restart)
        client = await _client(peer, token=peer.token)
        with pytest.raises(Gone):
            async with (
                asyncio.timeout(20),
                client.resource(CONFIG_MAPS).watch(
                    "default", resource_version=first["metadata"]["resourceVersion"]
                ) as changes,
            ):
                await anext(changes)
        await client.close()
