"""The servers the client's contract is checked against: a model, ours (in process and over TLS), and the real one.

Ours is the whole control plane as `tarmac server` composes it, over a store in memory; its controllers run too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tarmac.apps.control_plane import Address, Chosen, Running, control_plane, local_transport
from tarmac.apps.layout import Layout
from tarmac.base.clock import SystemClock
from tarmac.base.gates import WAY_IN
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.controllers.context import Settings
from tarmac.server.security.users import User
from tests.client.model_server import ModelServer
from tests.support.peer import Peer

ADMIN = User("admin", groups=("system:masters", "system:authenticated"))


@asynccontextmanager
async def model() -> AsyncGenerator[Client]:
    yield Client(ModelServer(clock=SystemClock()).transport())


@asynccontextmanager
async def our_server(directory: Path, *features: str) -> AsyncGenerator[Running]:
    layout = Layout(directory, directory / "pki", directory / "secrets.key", "memory://")
    chosen = Chosen(settings=Settings(way_in=WAY_IN in features))
    async with control_plane(layout, Address("127.0.0.1", 0), chosen, features=features) as running:
        yield running


@asynccontextmanager
async def in_process(directory: Path) -> AsyncGenerator[Client]:
    async with our_server(directory) as running:
        yield Client(local_transport(running.server, ADMIN))


@asynccontextmanager
async def over_tls(directory: Path) -> AsyncGenerator[Client]:
    async with our_server(directory):
        client = Client(HttpTransport(load(str(directory / "kubeconfig")).http))
        yield client
        await client.close()


@asynccontextmanager
async def real(peer: Peer) -> AsyncGenerator[Client]:
    client = Client(HttpTransport(HttpConfig(peer.url, ca=peer.ca, token=peer.token)))
    yield client
    await client.close()
