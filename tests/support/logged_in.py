"""Load on a cluster by one user, which notes every error that looks like a logout.

As a program, with KUBECONFIG and a NAME for the object that it writes, it runs until it is killed and prints its
progress: a test on another machine has no other way to read it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tarmac.api.status import ApiError, Gone
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import CONFIG_MAPS

_NAME = "load"


def client_of(kubeconfig: Path) -> Client:
    return Client(HttpTransport(load(str(kubeconfig)).http))


class Load:
    """A writer that applies a ConfigMap and a watcher of it, both with the same credentials."""

    def __init__(self, client: Client, name: str = _NAME) -> None:
        self._maps = client.resource(CONFIG_MAPS)
        self._name = name
        self.done = 0
        self.seen = 0
        self.refusals: list[str] = []

    async def write(self) -> None:
        while True:
            try:
                await self._maps.apply(self._map(), manager="load")
                self.done += 1
            except (ApiError, ClientError) as error:
                self._note(error)
            await asyncio.sleep(0.02)

    async def watch(self) -> None:
        """Watch; resume at the last version when the connection breaks."""
        version = ""
        while True:
            try:
                version = version or (await self._maps.list("default")).resource_version
                async with self._maps.watch("default", resource_version=version) as events:
                    async for change in events:
                        version = change.metadata.resource_version
                        self.seen += change.metadata.name == self._name
            except Gone:  # compacted history has nothing to do with the credentials
                version = ""
            except (ApiError, ClientError) as error:
                self._note(error)
            await asyncio.sleep(0.02)

    def _map(self) -> dict[str, object]:
        metadata = {"name": self._name, "namespace": "default"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"n": str(self.done)}}

    def _note(self, error: Exception) -> None:
        # A broken connection says nothing about the credentials; an API error or a certificate error does.
        if isinstance(error, ApiError) or "certificate" in str(error).lower():
            self.refusals.append(str(error))


@asynccontextmanager
async def under_load(kubeconfig: Path, name: str = _NAME) -> AsyncGenerator[Load]:
    client = client_of(kubeconfig)
    made = Load(client, name)
    try:
        async with background(made.write(), "writing"), background(made.watch(), "watching"):
            yield made
    finally:
        await client.close()


async def _main(kubeconfig: Path, name: str) -> None:
    async with under_load(kubeconfig, name) as made:
        while True:
            print(json.dumps({"done": made.done, "seen": made.seen, "refusals": made.refusals}), flush=True)
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2]))
