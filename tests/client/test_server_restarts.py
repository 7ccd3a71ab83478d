"""A server killed under load: an informer gets every acknowledged change once, in order, and without listing again."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from tarmac.api.status import ApiError
from tarmac.client.cache import Item
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.informer import Informers
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import CONFIG_MAPS
from tarmac.client.transport import ClientRequest
from tests.support.tarmac_process import TarmacProcess

Json = dict[str, Any]
KILLS = 4


async def test_every_change_is_heard_once_over_kills(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data") as server:
        client = Client(HttpTransport(load(str(server.kubeconfig)).http))
        informers = Informers(client)
        informer = informers.informer(CONFIG_MAPS, namespace="default", fields="metadata.name=counter")
        heard: list[int] = []
        informer.on_change(lambda _old, new: heard.append(_value(new)))
        async with asyncio.timeout(50), asyncio.TaskGroup() as group:
            running = group.create_task(informers.run())
            await informer.synced()
            writing = group.create_task(_count(client))
            for killed in range(1, KILLS + 1):
                await asyncio.sleep(0.3)
                server.kill()
                await asyncio.to_thread(server.start)
                while informer.stats.resumes < killed:
                    await asyncio.sleep(0.02)
            writing.cancel()
            final = int((await client.resource(CONFIG_MAPS).get("counter", "default"))["data"]["n"])
            # The last write was cancelled in flight: it may still be committed after this read.
            while not heard or heard[-1] < final:
                await asyncio.sleep(0.02)
            running.cancel()
        await client.close()
    assert heard in (list(range(final + 1)), list(range(final + 2))), "a change was missed, repeated or invented"
    assert final > 20
    assert informer.stats.lists == 1, "resumed without a relist"


async def _count(client: Client) -> None:
    """Count upwards in one object; after a failure check first whether the write happened."""
    maps = client.resource(CONFIG_MAPS)
    number = 0
    while True:
        try:
            if number == 0:
                await maps.create({"metadata": {"name": "counter", "namespace": "default"}, "data": {"n": "0"}})
            else:
                await maps.patch("counter", {"data": {"n": str(number)}}, "default")
            number += 1
        except (ApiError, ClientError):
            await asyncio.sleep(0.05)
            number = await _next(client, number)


async def _next(client: Client, number: int) -> int:
    try:
        return int((await client.resource(CONFIG_MAPS).get("counter", "default"))["data"]["n"]) + 1
    except (ApiError, ClientError):
        return number


def _value(item: Item[Json] | None) -> int:
    return -1 if item is None else int(item.object["data"]["n"])


def test_connections_dropped_in_the_middle_are_closed_when_the_transport_is(tmp_path: Path) -> None:
    """The loop may end right after: a server that closes slowly must not leak a file descriptor."""

    async def drop_watches_of(server: TarmacProcess) -> None:
        transport = HttpTransport(load(str(server.kubeconfig)).http)
        begun: list[str] = []

        async def watch() -> None:
            async with transport.stream(ClientRequest("GET", "/api/v1/namespaces", "watch=true")) as reply:
                async for _chunk in reply.chunks:
                    begun.append("here")

        watches = [asyncio.create_task(watch()) for _ in range(20)]
        while len(begun) < len(watches):
            await asyncio.sleep(0.01)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            for task in watches:
                task.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            asyncio.get_running_loop().call_later(0.3, os.kill, server.pid, signal.SIGCONT)
            await transport.close()
        finally:
            os.kill(server.pid, signal.SIGCONT)

    with TarmacProcess(tmp_path / "data") as server:
        before = len(os.listdir("/proc/self/fd"))
        asyncio.run(drop_watches_of(server))
        assert len(os.listdir("/proc/self/fd")) == before
