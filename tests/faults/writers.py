"""Clients that write and watch through crashes and keep exact records of their responses.

A writer owns its keys and writes an ever-growing number into them. It knows one of three results of every write:
acknowledged (with its resource version), rejected, or unknown (the connection broke). A watcher never relists: it
resumes from the last version it saw, so a lost or repeated event shows.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

PATH = "/api/v1/namespaces/default/configmaps"
BROKEN = (aiohttp.ClientError, ConnectionError, asyncio.TimeoutError, asyncio.IncompleteReadError)


@dataclass
class Books:
    """A writer's record of one key."""

    name: str
    acknowledged: dict[int, int] = field(default_factory=dict[int, int])  # number -> resource version
    unknown: set[int] = field(default_factory=set[int])
    number: int = 0


class Writer:
    """Creates its object once and then updates it until it is stopped."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, name: str, *, accepts: Collection[int] = (409,)
    ) -> None:
        """`accepts`: errors that the scenario expects."""
        self._session = session
        self._url = url
        self._accepts = accepts
        self.books = Books(name)

    async def run(self, stop: asyncio.Event) -> None:
        """Write until stopped."""
        while not stop.is_set():
            try:
                await self._write()
            except BROKEN:
                # Also when no server was reachable: the library repeats a PUT by itself when a kept connection breaks,
                # so the first request may have arrived.
                self.books.unknown.add(self.books.number)
                await asyncio.sleep(0.02)

    async def _write(self) -> None:
        books = self.books
        books.number += 1
        body = {"metadata": {"name": books.name}, "data": {"number": str(books.number), "padding": "x" * 700}}
        exists = bool(books.acknowledged or books.unknown)
        method, url = ("PUT", f"{self._url}{PATH}/{books.name}") if exists else ("POST", self._url + PATH)
        async with self._session.request(method, url, json=body) as answer:
            if answer.status == 404:  # the create with the unknown result never happened
                books.acknowledged.clear()
                books.unknown.clear()
            elif answer.status in (200, 201):
                books.acknowledged[books.number] = int((await answer.json())["metadata"]["resourceVersion"])
            elif answer.status == 503 and 503 in self._accepts:
                books.unknown.add(books.number)
            elif answer.status not in self._accepts:
                raise AssertionError(f"{method} answered {answer.status}: {await answer.text()}")


class Watcher:
    """Follows every ConfigMap from one version on, over any number of broken connections."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, version: int, connecting: asyncio.Semaphore | None = None
    ) -> None:
        """`connecting` limits the number of concurrent handshakes of one process."""
        self._session = session
        self._url = url
        self._connecting = connecting or asyncio.Semaphore()
        self.version = version
        self.events: list[tuple[str, str, int, int]] = []  # (type, name, number, version)
        self.resumed = 0
        self.following = asyncio.Event()
        self.refused: list[str] = []

    async def run(self) -> None:
        """Watch for ever; cancel to end."""
        while True:
            try:
                await self._follow()
            except BROKEN:
                await asyncio.sleep(0.02)

    async def _follow(self) -> None:
        query = {"watch": "1", "resourceVersion": str(self.version), "timeoutSeconds": "600"}
        timeout = aiohttp.ClientTimeout(total=None, connect=self._session.timeout.connect)
        async with self._connecting:
            answering = await self._session.get(self._url + PATH, params=query, timeout=timeout)
        async with answering as answer:
            if answer.status != 200:
                self.refused.append(f"{answer.status} {await answer.text()}")
                return
            self.resumed += 1
            self.following.set()
            async for line in answer.content:
                self._take(msgspec.json.decode(line))

    def _take(self, event: dict[str, Any]) -> None:
        metadata = event["object"].get("metadata", {})
        if event["type"] == "ERROR":
            self.refused.append(str(event["object"]))
            return
        self.version = int(metadata["resourceVersion"])
        if metadata["name"].startswith("key-"):
            number = int(event["object"]["data"]["number"])
            self.events.append((event["type"], metadata["name"], number, self.version))


def session_for(context: ssl.SSLContext, *, limit: int = 200, connect: float = 5) -> aiohttp.ClientSession:
    """A session with enough connections for every writer and watcher."""
    timeout = aiohttp.ClientTimeout(total=max(20, connect), connect=connect)
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=limit), timeout=timeout)
