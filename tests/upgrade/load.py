"""Clients at work while versions change: each retries a failed request once at another server, and no more than that.

They record acknowledged writes, to compare them with the store in the end. All writes can be repeated: a repeated one
that is done already was done by the first attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, ApiError, InternalError, NotFound, ServiceUnavailable, TooManyRequests
from tarmac.client.cache import Item
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.informer import Informers
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import CONFIG_MAPS, SECRETS
from tests.support.tarmac_process import TarmacProcess

AGAIN = (ClientError, ServiceUnavailable, TooManyRequests, InternalError)
NAMESPACE = "default"


def client_of(servers: Sequence[TarmacProcess], first: int) -> Client:
    """Return a client that knows all servers and starts with one of them."""
    config = load(str(servers[first].kubeconfig)).http
    return Client(HttpTransport(replace(config, servers=tuple(each.url for each in servers))))


class Writer:
    """Creates, changes and deletes objects of its own, one after the other."""

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self.kept: dict[str, str] = {}  # by name: the value that was acknowledged
        self.writes = 0
        self.retried = 0
        self.noticed: list[str] = []  # requests that failed twice
        self._client = client

    async def work(self, ended: asyncio.Event) -> None:
        """Work until the event is set."""
        number = 0
        while not ended.is_set():
            number += 1
            await self._life(f"{self.name}-{number}", number)
        await self._client.close()

    async def _life(self, name: str, number: int) -> None:
        resource = self._client.resource(SECRETS if number % 3 == 0 else CONFIG_MAPS)
        field = "stringData" if number % 3 == 0 else "data"
        metadata = {"name": name, "namespace": NAMESPACE, "labels": {"by": self.name}}
        body: JsonObject = {"apiVersion": "v1", "kind": resource.target.kind, "metadata": metadata, field: {"n": "0"}}
        await self._acknowledged(lambda: resource.create(body), AlreadyExists)
        self.kept[name] = "0"
        for value in ("1", "2"):
            change = {field: {"n": value}}
            await self._acknowledged(lambda change=change: resource.patch(name, change, NAMESPACE))
            self.kept[name] = value
        if number % 2:
            await self._acknowledged(lambda: resource.delete(name, NAMESPACE), NotFound)
            del self.kept[name]

    async def _acknowledged(self, write: Callable[[], Awaitable[Any]], done: type[ApiError] | None = None) -> None:
        self.writes += 1
        try:
            await write()
        except AGAIN:
            self.retried += 1
            try:
                with suppress(*((done,) if done else ())):  # by the first attempt
                    await write()
            except AGAIN as error:
                self.noticed.append(repr(error))
                raise


class Watcher:
    """Follows an object in which a writer counts up; a missed or repeated change fails."""

    def __init__(self, client: Client) -> None:
        self.heard: list[int] = []
        self._client = client
        self._informers = Informers(client)
        self._informer = self._informers.informer(CONFIG_MAPS, namespace=NAMESPACE, fields="metadata.name=counter")
        self._informer.on_change(lambda _old, new: self.heard.append(_value(new)))

    async def work(self, ended: asyncio.Event) -> None:
        """Follow until the count has ended."""
        running = asyncio.ensure_future(self._informers.run())
        await ended.wait()
        final = _number(await self._client.resource(CONFIG_MAPS).get("counter", NAMESPACE))
        async with asyncio.timeout(20):
            while not self.heard or self.heard[-1] != final:
                await asyncio.sleep(0.02)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await self._client.close()


async def count(client: Client, ended: asyncio.Event) -> None:
    """Count up in one object, each number once; after a failure check first whether the write was done."""
    maps, number = client.resource(CONFIG_MAPS), 0
    while not ended.is_set():
        try:
            present = await maps.get("counter", NAMESPACE)
            number = _number(present) + 1
            await maps.update({**present, "data": {"n": str(number)}})
        except AGAIN:
            await asyncio.sleep(0.02)
    await client.close()


def counter() -> JsonObject:
    """Return the object at the start of the count."""
    metadata = {"name": "counter", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"n": "0"}}


def _value(item: Item[Any] | None) -> int:
    assert item is not None
    return _number(item.object)


def _number(found: JsonObject) -> int:
    return int(found["data"]["n"])
