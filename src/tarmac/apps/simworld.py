"""A control plane in a simulated world: the parts of `tarmac server` without sockets, disk and real time.

Every process of the world (replicas of the controllers, the nodes, users) has its own link to the server and its own
wall clock, so each can be partitioned, crash, or have a wrong clock by itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from tarmac.api.catalog import build_catalog
from tarmac.api.schema import JsonObject
from tarmac.api.status import Unauthorized
from tarmac.apps.bootstrap import ensure_initial_objects, ensure_local_disks
from tarmac.apps.control_plane import CONTROLLING, STARTING, local_transport
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.transport import Transport
from tarmac.controllers.metricsources import MetricsSource
from tarmac.http.messages import Answer, Request, UpgradeResponse
from tarmac.server.admission.default import default_chain
from tarmac.server.app import ApiServer, RequestGates
from tarmac.server.assembly import ServerParts, assemble
from tarmac.server.lookup import StoreLookup
from tarmac.server.reader import Reader
from tarmac.server.security.authentication.impersonation import Impersonation
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.authorization.defaults import ensure_defaults
from tarmac.server.security.fairness import Fairness
from tarmac.server.security.reviews import Reviews
from tarmac.server.security.tokens.jwt import InvalidToken
from tarmac.server.security.users import User
from tarmac.sim.faults.draws import FaultInjector
from tarmac.sim.faults.link import ServerLink
from tarmac.sim.faults.replica import Replica
from tarmac.sim.history import HistoryStore
from tarmac.sim.loop import VirtualClock, VirtualLoop
from tarmac.sim.seeds import stream

USER = User("somebody", groups=("system:masters", "system:authenticated"))


class _NoAuthentication:
    """Authentication without external clients: no tokens to verify or issue, and no audit file."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._impersonation = Impersonation(authorizer)

    def authenticate(self, request: Request) -> User:
        """Return the identity that a simulated client states, or impersonates."""
        if request.user is None:
            raise Unauthorized("a simulated world has no way in from outside")
        return self._impersonation.identity(request, request.user)

    def recognises(self, request: Request) -> bool:
        """Return False: without sockets no body is ever pending."""
        return False

    def record(self, request: Request, answer: Answer) -> None:
        """Record nothing: the history serves as audit."""

    def record_end(self, request: Request, answer: UpgradeResponse) -> None:
        """Record nothing: there are no streams."""

    def review(self, token: str, audiences: tuple[str, ...]) -> NoReturn:
        """Reject all tokens."""
        raise InvalidToken

    def issue(self, namespace: str, name: str, request: JsonObject) -> NoReturn:
        """Refuse: tokens are not used here."""
        raise Unauthorized("a simulated world issues no tokens")


@dataclass
class SimWorld:
    """A running simulated world."""

    loop: VirtualLoop
    seed: int
    luck: FaultInjector
    store: HistoryStore
    server: ApiServer
    clock: VirtualClock  # of the server
    clocks: dict[str, VirtualClock] = field(default_factory=dict[str, VirtualClock])

    def link(self, user: User) -> ServerLink:
        """Return a new connection for a process that acts as `user`."""
        return ServerLink(local_transport(self.server, user), self.luck)

    def client(self, name: str, link: Transport, run: int = 1) -> Client:
        """Return a client for the named process; its clock survives restarts of the process."""
        clock = self.clocks.setdefault(name, VirtualClock(self.loop))
        return Client(link, clock, stream(self.seed, f"{name}/{run}"))

    def replica(self, name: str, load: MetricsSource, controllers: str = "*") -> Replica:
        """Return a controller process that is not started yet."""

        def connect(run: int) -> tuple[ServerLink, Client]:
            link = self.link(CONTROLLING)
            return link, self.client(name, link, run)

        return Replica(name, connect, load, controllers)

    def reliable(self, user: User = USER) -> Client:
        """Return a client with a connection that never fails."""
        return Client(local_transport(self.server, user), self.clock, Randomness(self.seed))


@asynccontextmanager
async def world(loop: VirtualLoop, seed: int, luck: FaultInjector) -> AsyncGenerator[SimWorld]:
    """Run a server with its initial objects and no clients yet."""
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
        starting = Client(local_transport(server, STARTING), clock, randomness)
        await ensure_initial_objects(starting)
        await ensure_local_disks(starting)
        yield SimWorld(loop, seed, luck, store, server, clock, {"server": clock})


def _server(store: HistoryStore, authorizer: Authorizer, clock: VirtualClock, randomness: Randomness) -> ApiServer:
    gate = _NoAuthentication(authorizer)
    reviews = Reviews(gate, authorizer, clock, lambda _name, _not_before: False)  # simulated nodes have no certificates
    gates = RequestGates(gate, authorizer, Fairness(), gate)
    reader = Reader(store)
    catalog = build_catalog(StoreLookup(reader))
    chain = default_chain(reader, catalog, clock, randomness, authorizer, class_resources=True, way_in=True)
    return assemble(ServerParts(store, catalog, gates, chain, clock, randomness, reviews=reviews, issuer=gate))
