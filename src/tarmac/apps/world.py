"""A control plane in a world of its own: everything `tarmac server` has, but no sockets, no disk and no real time.

Every process of the world (replicas of the controllers, the nodes, users) has a link of its own to the server and a
wall clock of its own, so each can be cut off, crash, or be wrong about the time by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from tarmac.api.catalog import build_catalog
from tarmac.api.schema import JsonObject
from tarmac.api.status import Unauthorized
from tarmac.apps.bootstrap import ensure_initial_objects
from tarmac.apps.control_plane import CONTROLLING, STARTING, local_transport
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.leader import Elector, Timing
from tarmac.controllers.manager import COMPONENT, Manager
from tarmac.server.admission.default import default_chain
from tarmac.server.app import ApiServer, Gates
from tarmac.server.assembly import Parts, assemble
from tarmac.server.http.messages import Answer, Request
from tarmac.server.lookup import StoreLookup
from tarmac.server.reader import Reader
from tarmac.server.security.authorize import Authorizer
from tarmac.server.security.defaults import ensure_defaults
from tarmac.server.security.fairness import Fairness
from tarmac.server.security.users import User
from tarmac.sim.faults.link import Link
from tarmac.sim.faults.luck import Luck
from tarmac.sim.history import HistoryStore
from tarmac.sim.loop import VirtualClock, VirtualLoop
from tarmac.sim.seeds import stream

USER = User("somebody", groups=("system:masters", "system:authenticated"))
ELECTION = Timing()


class _Strangers:
    """Nobody comes from outside: there are no tokens to check, issue or review, and no audit file."""

    def authenticate(self, request: Request) -> NoReturn:
        """Callers of this world say who they are."""
        raise Unauthorized("a simulated world has no way in from outside")

    def record(self, request: Request, answer: Answer) -> None:
        """The history is the audit."""

    def answer(self, plural: str, user: User, namespace: str, review: JsonObject) -> JsonObject:
        """Controllers that ask who may do what are told that everybody may."""
        return {**review, "status": {"allowed": True}}

    def issue(self, namespace: str, name: str, request: JsonObject) -> NoReturn:
        """There is nobody to use a token."""
        raise Unauthorized("a simulated world issues no tokens")


@dataclass
class World:
    """A running one."""

    loop: VirtualLoop
    seed: int
    luck: Luck
    store: HistoryStore
    server: ApiServer
    clock: VirtualClock  # of the server
    clocks: dict[str, VirtualClock] = field(default_factory=dict[str, VirtualClock])

    def link(self, user: User) -> Link:
        """A new connection for a process that acts as `user`."""
        return Link(local_transport(self.server, self.store, user), self.luck)

    def client(self, name: str, link: Link, run: int = 1) -> Client:
        """A client for the process of this name; its machine's clock outlives it."""
        clock = self.clocks.setdefault(name, VirtualClock(self.loop))
        return Client(link, clock, stream(self.seed, f"{name}/{run}"))

    def reliable(self, user: User = USER) -> Client:
        """A client whose connection never fails."""
        return Client(local_transport(self.server, self.store, user), self.clock, Randomness(self.seed))


class Replica:
    """One process of controllers: it leads or waits to lead, may crash, and comes back as another run of itself."""

    def __init__(self, world: World, name: str, controllers: str = "*") -> None:
        self.name = name
        self.link: Link
        self._world = world
        self._controllers = controllers
        self._runs = 0
        self._task: asyncio.Task[None] | None = None
        self._elector: Elector

    @property
    def leading(self) -> bool:
        """Whether it believes so itself."""
        return self._task is not None and self._elector.leading

    @property
    def running(self) -> bool:
        """Whether the process exists."""
        return self._task is not None

    def start(self) -> None:
        """A fresh process: nothing is left of an earlier one."""
        self._runs += 1
        self.link = self._world.link(CONTROLLING)
        client = self._world.client(self.name, self.link, self._runs)
        self._elector = Elector(client, COMPONENT, "kube-system", f"{self.name}-{self._runs}", ELECTION)
        manager = Manager(client, self._controllers, root_ca="simulated", elector=self._elector)
        self._task = asyncio.create_task(manager.run())

    def crash(self) -> None:
        """Gone at once: nothing that its tasks still do on their way out reaches the server."""
        if self._task is not None:
            self.link.sever()
            self._task.cancel()
            self._task = None


@asynccontextmanager
async def world(loop: VirtualLoop, seed: int, luck: Luck) -> AsyncGenerator[World]:
    """A server that serves, with the objects every server has, and nobody in it yet."""
    clock = VirtualClock(loop)
    randomness = Randomness(seed)
    async with AsyncExitStack() as stack:
        store = HistoryStore(clock=clock)
        await store.start()
        stack.push_async_callback(store.close)
        await ensure_defaults(store, clock, randomness)
        authorizer = Authorizer(store)
        authorizer.start()
        stack.callback(authorizer.stop)
        server = _server(store, authorizer, clock, randomness)
        await server.start()
        stack.push_async_callback(server.stop)
        await ensure_initial_objects(Client(local_transport(server, store, STARTING), clock, randomness))
        yield World(loop, seed, luck, store, server, clock, {"server": clock})


def _server(store: HistoryStore, authorizer: Authorizer, clock: VirtualClock, randomness: Randomness) -> ApiServer:
    strangers = _Strangers()
    gates = Gates(strangers, authorizer, Fairness(), strangers)
    reader = Reader(store)
    catalog = build_catalog(StoreLookup(reader))
    chain = default_chain(reader, catalog, clock, randomness, authorizer)
    return assemble(Parts(store, catalog, gates, chain, clock, randomness, reviews=strangers, issuer=strangers))
