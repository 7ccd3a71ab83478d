"""The control plane of one process: store, API server, listener and house-keeping controllers, wired together.

Start order matters: keys before anything that signs, the store before anything that reads, policy before the first
request, the listener before the ready line, controllers last. Stopping goes the other way round, so nothing accepted is
lost: the listener finishes what is in flight, then the store writes what it has.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

from tarmac.api.catalog import build_catalog
from tarmac.api.identities import NAMESPACE, PROCESS, user_name
from tarmac.api.repositories import TOKENS_PATH
from tarmac.apps.bootstrap import ensure_initial_objects, ensure_local_disks, ensure_own_service
from tarmac.apps.layout import Layout
from tarmac.apps.leaderelection import elector
from tarmac.apps.serverleases import announced, reached_at
from tarmac.apps.tokenlabels import label_used_tokens
from tarmac.base.clock import Clock, SystemClock
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import Tasks, background, supervise
from tarmac.client.client import Client
from tarmac.client.local import LocalAnswer, LocalTransport
from tarmac.controllers.context import Settings
from tarmac.controllers.manager import Manager
from tarmac.http.listener import Listener, serve
from tarmac.http.messages import Request
from tarmac.http.tls import server_context
from tarmac.server.admission.default import default_chain
from tarmac.server.app import ApiServer, Gates
from tarmac.server.assembly import ServerParts, assemble
from tarmac.server.lookup import StoreLookup
from tarmac.server.metrics import Metrics, health_metrics
from tarmac.server.nodes.connections import NodeWays
from tarmac.server.nodes.nodeendpoints import NodeTls, Ways
from tarmac.server.nodes.scraping import Scraper
from tarmac.server.nodes.tunnels import PREFIX as TUNNELS_PATH
from tarmac.server.nodes.tunnels import Tunnels
from tarmac.server.reader import Reader
from tarmac.server.security import secrettokens
from tarmac.server.security.audit import AuditLog
from tarmac.server.security.authenticate import Authenticator
from tarmac.server.security.authorize import Authorizer
from tarmac.server.security.defaults import ensure_defaults
from tarmac.server.security.encryption import SecretSealer
from tarmac.server.security.fairness import Fairness
from tarmac.server.security.jwt import SigningKey
from tarmac.server.security.pki import Pki, write_kubeconfig
from tarmac.server.security.policy import SERVER_TO_NODES
from tarmac.server.security.renewal import keep_renewed
from tarmac.server.security.repositoryroom import RepositoryRoom
from tarmac.server.security.repositorytokens import RepositoryTokens
from tarmac.server.security.reviews import Reviews
from tarmac.server.security.serviceaccounts import ServiceAccountTokens, account_groups
from tarmac.server.security.tokenrequests import TokenIssuer
from tarmac.server.security.tokenuses import TokenUses
from tarmac.server.security.users import User
from tarmac.server.subresources.metrics import Metering
from tarmac.store.interface import Store
from tarmac.store.open import open_store

_YEAR = 365 * 24 * 3600
_SAY_EVERY = 3.0
_log = log("tarmac")

# The identities under which this process talks to its own server.
STARTING = User("system:tarmac:bootstrap", groups=("system:masters", "system:authenticated"))
CONTROLLING = User(user_name(PROCESS), groups=(*account_groups(NAMESPACE), "system:authenticated"))


@dataclass(frozen=True)
class Address:
    """Where to listen, under which further names clients come, and which further addresses are listened on."""

    host: str
    port: int
    names: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chosen:
    """Which controllers run beside the server, and how."""

    names: str = "*"
    settings: Settings = Settings()  # noqa: RUF009


@dataclass(frozen=True)
class Shared:
    """What the server shares with whatever works beside it."""

    metering: Metering  # what `kubectl top` and the autoscaler are told
    uses: TokenUses  # of tokens that stand in Secrets
    repositories: RepositoryRoom  # what is known of the registry's, if there is one


@dataclass(frozen=True)
class Running:
    """A control plane that serves."""

    server: ApiServer
    store: Store
    listener: Listener
    url: str
    shared: Shared


EVERYTHING = Chosen()


@asynccontextmanager
async def control_plane(
    layout: Layout, address: Address, controllers: Chosen = EVERYTHING, class_resources: bool = False
) -> AsyncGenerator[Running]:
    """Serve until the block ends, with the chosen controllers beside. `class_resources`: the server's feature gate.

    Raises ValueError, OSError or StoreError with a text for the operator.
    """
    clock, randomness = SystemClock(), Randomness()
    async with AsyncExitStack() as stack:
        pki = Pki(layout.pki, clock)
        metrics = Metrics()
        sealer = SecretSealer.from_file(layout.encryption_key, randomness)
        store = open_store(layout.store_url, sealer=sealer, clock=clock, observer=metrics.store_observed)
        async with background(_say_that_it_waits(layout.store_url, clock), "waiting for the store"):
            await store.start()
        stack.push_async_callback(store.close)
        await ensure_defaults(store, clock, randomness)
        shared = Shared(Metering(), TokenUses(clock), RepositoryRoom(Reader(store)))
        server = _server(layout, pki, store, metrics, shared, stack, class_resources)
        await server.start()
        stack.push_async_callback(server.stop)
        starting = Client(local_transport(server, STARTING), clock, randomness)
        await ensure_initial_objects(starting)
        await ensure_local_disks(starting)
        hosts = _distinct(address.host, *address.also)
        own = reached_at(hosts)
        names = [address.host, *address.also, *address.names, *own]
        with pki.server_files(names) as files:
            context = server_context(*files, pki.ca_file)
        beside = Tasks()
        stack.push_async_callback(beside.close)
        beside.begin(keep_renewed(pki, names, context, clock), "renewal of the server's certificate")
        beside.begin(
            supervise("token labels", partial(label_used_tokens, starting, shared.uses), clock), "token labels"
        )
        listener = await serve(server.handle, context, hosts, address.port, knows=server.knows)
        stack.push_async_callback(listener.stop)
        url = f"https://{_bracketed(address.host)}:{listener.port}"
        ca = pki.ca_file.read_bytes()
        write_kubeconfig(layout.kubeconfig, url, ca, pki.admin())
        write_kubeconfig(layout.controllers_kubeconfig, url, ca, pki.controllers(), "controllers")
        await ensure_own_service(starting, listener.port)
        await stack.enter_async_context(announced(starting, own, listener.port))
        await stack.enter_async_context(_controllers(controllers, server, store, pki, metrics))
        yield Running(server, store, listener, url, shared)


async def _say_that_it_waits(url: str, clock: Clock) -> None:
    """Somebody looks at a start that does not go on."""
    began = clock.monotonic()
    while True:
        await clock.sleep(_SAY_EVERY)
        _log.warning("waiting for the store", store=url.partition("?")[0], seconds=round(clock.monotonic() - began))


def _server(
    layout: Layout,
    pki: Pki,
    store: Store,
    metrics: Metrics,
    shared: Shared,
    stack: AsyncExitStack,
    class_resources: bool,
) -> ApiServer:
    clock, randomness = SystemClock(), Randomness()
    authorizer = Authorizer(store)
    authorizer.start()
    stack.callback(authorizer.stop)
    tokens = ServiceAccountTokens(store, SigningKey(pki.token_key_file.read_bytes()), clock, uses=shared.uses)
    authenticator = Authenticator(store, tokens, authorizer, clock)
    audit = AuditLog(layout.audit_log, clock, randomness)
    stack.callback(audit.close)
    gates = Gates(authenticator, authorizer, Fairness(), audit)
    reader = Reader(store)
    catalog = build_catalog(StoreLookup(reader))
    chain = default_chain(reader, catalog, clock, randomness, authorizer, class_resources=class_resources)
    reviews = Reviews(authenticator, authorizer, clock)
    issuer = TokenIssuer(store, tokens, clock, randomness)
    parts = ServerParts(store, catalog, gates, chain, clock, randomness, metrics, reviews=reviews, issuer=issuer)
    parts.usage = shared.metering
    _join_nodes(parts, reader, pki, shared.metering, stack)
    parts.documents.update(tokens.documents())
    repository_tokens = RepositoryTokens(authorizer, shared.repositories, pki.registry_tokens, clock, randomness)
    parts.documents[TOKENS_PATH] = repository_tokens.answer
    parts.ready.update(store.checks())
    metrics.gauges.append(partial(health_metrics, parts.ready))
    return assemble(parts)


def _join_nodes(parts: ServerParts, reader: Reader, pki: Pki, metering: Metering, stack: AsyncExitStack) -> None:
    """Ways to nodes, and what they are asked of the server's own accord."""
    clock, tunnels = parts.clock, Tunnels(parts.randomness)
    tls = NodeTls(pki.ca_file.read_text(), lambda: pki.client(SERVER_TO_NODES), clock)
    ways = Ways(reader, tunnels, tls)
    parts.connections = NodeWays(ways)
    parts.documents[TUNNELS_PATH] = tunnels.answer
    parts.metrics.gauges.append(tunnels.families)
    metering.source = scraper = Scraper(reader, ways, clock)
    scraping = Tasks()
    stack.push_async_callback(scraping.close)
    scraping.begin(supervise("metering", scraper.run, clock), "metering")


@asynccontextmanager
async def _controllers(
    chosen: Chosen, server: ApiServer, store: Store, pki: Pki, metrics: Metrics
) -> AsyncGenerator[None]:
    """The controllers beside the server. Where other servers share the store, those of one of them work."""
    client = Client(local_transport(server, CONTROLLING), SystemClock(), Randomness())

    def sign(request: str, usages: list[str], expiration: int | None) -> str:
        return pki.sign_request(request.encode(), usages, expiration or _YEAR).decode()

    manager = Manager(
        client,
        chosen.names,
        root_ca=pki.ca_file.read_text(),
        sign=sign,
        sign_token=partial(secrettokens.sign, SigningKey(pki.token_key_file.read_bytes()), Randomness()),
        elector=elector(client) if store.shared else None,
        settings=chosen.settings,
    )
    metrics.gauges.append(manager.metrics.families)
    async with background(supervise("controllers", manager.run, SystemClock()), "controllers"):
        yield


def local_transport(server: ApiServer, user: User) -> LocalTransport:
    """A way into the server from its own process, under a fixed identity. Caches hold the store's own bytes."""

    def handle(
        method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> LocalAnswer | Awaitable[LocalAnswer]:
        answer = server.handle(Request(method, path, query, headers, body, user=user))
        return cast("LocalAnswer | Awaitable[LocalAnswer]", answer)

    return LocalTransport(handle)


def _distinct(first: str, *others: str) -> list[str]:
    """Addresses to listen on: one that means all of the machine's leaves nothing for the others to add."""
    return [first] if first in ("0.0.0.0", "::", "") else list(dict.fromkeys([first, *others]))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
