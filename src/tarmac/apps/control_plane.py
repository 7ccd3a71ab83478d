"""The control plane of one process: store, API server, listener and controllers, wired together.

Start order matters: keys before anything that signs, the store before anything that reads, policy before the first
request, the listener before the ready line, controllers last. Shutdown is in reverse order, so no accepted request is
lost: the listener completes requests in flight, then the store writes its pending changes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

from tarmac.api.catalog import build_catalog
from tarmac.api.identities import NAMESPACE, PROCESS, user_name
from tarmac.api.nodetokens import AUTHORITIES_PATH, SERVERS_PATH
from tarmac.api.repositories import TOKENS_PATH
from tarmac.api.rotations import ROTATIONS_PATH
from tarmac.apps.authentication import Authentication
from tarmac.apps.bootstrap import ensure_initial_objects, ensure_local_disks, ensure_own_service
from tarmac.apps.clusterkeys import ClusterKeys
from tarmac.apps.formatupgrade import raise_format
from tarmac.apps.handover import HandOver
from tarmac.apps.layout import Layout
from tarmac.apps.leaderelection import elector
from tarmac.apps.rotating import OwnKubeconfigs, keep_following, keep_rotating
from tarmac.apps.serverfiles import follow_in
from tarmac.apps.serverleases import announced, reached_at
from tarmac.apps.tokenlabels import label_used_tokens
from tarmac.apps.workers.seat import Seat
from tarmac.apps.workers.serving import join, measuring, while_lowest
from tarmac.base.clock import Clock, SystemClock
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import Tasks, background, supervise
from tarmac.client.client import Client
from tarmac.client.local import LocalAnswer, LocalTransport
from tarmac.controllers.context import Settings
from tarmac.controllers.manager import ControllerManager
from tarmac.dashboard.files import BELOW, DashboardFiles
from tarmac.http.listener import Listener, serve
from tarmac.http.messages import Request, Response
from tarmac.server.admission.default import default_chain
from tarmac.server.app import ApiServer, RequestGates
from tarmac.server.assembly import ServerParts, assemble
from tarmac.server.clustermetrics import ClusterMetrics, leader_metrics
from tarmac.server.endpoints.scrapetargets import PREFIX as TARGETS_PATH
from tarmac.server.endpoints.scrapetargets import ScrapeTargets
from tarmac.server.lookup import StoreLookup
from tarmac.server.metrics import Metrics, health_metrics
from tarmac.server.nodes.connections import NodeProxy
from tarmac.server.nodes.nodeendpoints import NodeRoutes, NodeTls
from tarmac.server.nodes.scraping import Scraper
from tarmac.server.nodes.tunnels import PREFIX as TUNNELS_PATH
from tarmac.server.nodes.tunnels import NodeTunnels
from tarmac.server.nodesummaries import NodeSummaries
from tarmac.server.reader import Reader
from tarmac.server.security import secrettokens
from tarmac.server.security.audit import AuditLog
from tarmac.server.security.authenticate import Authenticator
from tarmac.server.security.authorize import Authorizer
from tarmac.server.security.defaults import ensure_defaults
from tarmac.server.security.encryption import SecretSealer
from tarmac.server.security.fairness import Fairness
from tarmac.server.security.openid.following import follow
from tarmac.server.security.openid.issuers import Issuers
from tarmac.server.security.pki import Pki
from tarmac.server.security.policy import SERVER_TO_NODES
from tarmac.server.security.renewal import ServerTls
from tarmac.server.security.repositoryroom import RepositoryRoom
from tarmac.server.security.repositorytokens import RepositoryTokens
from tarmac.server.security.reviews import Reviews
from tarmac.server.security.revocations import Revocations
from tarmac.server.security.rotation import RotationEndpoint
from tarmac.server.security.serviceaccounts import ServiceAccountTokens, account_groups
from tarmac.server.security.tokenrequests import TokenIssuer
from tarmac.server.security.tokenuses import TokenUses
from tarmac.server.security.users import User
from tarmac.server.subresources.metrics import Metering
from tarmac.server.workers.peers import Peers
from tarmac.store.interface import Store
from tarmac.store.open import open_store

_YEAR = 365 * 24 * 3600
_LOG_INTERVAL = 3.0
_log = log("tarmac")

# The identities of this process at its own server.
STARTING = User("system:tarmac:bootstrap", groups=("system:masters", "system:authenticated"))
CONTROLLING = User(user_name(PROCESS), groups=(*account_groups(NAMESPACE), "system:authenticated"))


@dataclass(frozen=True)
class Address:
    """The address to listen on, additional names in the certificate, and additional addresses to listen on."""

    host: str
    port: int
    names: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chosen:
    """The controllers to run in the server's process, and their settings."""

    names: str = "*"
    settings: Settings = Settings()  # noqa: RUF009


@dataclass(frozen=True)
class Shared:
    """State shared between the server and the tasks in its process."""

    metering: Metering  # the source of `kubectl top` and of the autoscaler
    uses: TokenUses  # of tokens stored in Secrets
    repositories: RepositoryRoom  # state of the registry, if there is one


@dataclass(frozen=True)
class Running:
    """A serving control plane."""

    server: ApiServer
    store: Store
    listener: Listener
    url: str
    shared: Shared


EVERYTHING = Chosen()
CERTIFICATES_ONLY = Authentication()


@asynccontextmanager
async def control_plane(
    layout: Layout,
    address: Address,
    controllers: Chosen = EVERYTHING,
    class_resources: bool = False,
    people: Authentication = CERTIFICATES_ONLY,
    seat: Seat | None = None,
) -> AsyncGenerator[Running]:
    """Serve until the block ends, together with the chosen controllers. `class_resources`: the server's feature gate.

    With a `seat` this is one of several processes of one server. Raises ValueError, OSError or StoreError with a
    message for the operator.
    """
    clock, randomness = SystemClock(), Randomness()
    async with AsyncExitStack() as stack:
        pki = Pki(layout.pki, clock)
        metrics = Metrics()
        store, sealer = await _started_store(layout, metrics, stack)
        keys = ClusterKeys(layout, store, sealer, pki, clock)
        await ensure_defaults(store, clock, randomness)
        hand_over = HandOver(layout, shared=store.shared)
        shared = Shared(Metering(), TokenUses(clock), RepositoryRoom(Reader(store)))
        issuers = Issuers(store, clock)
        stack.push_async_callback(issuers.close)
        await issuers.use(people.issuers)
        peers = Peers(seat.folder, seat.index, seat.count, clock) if seat else None
        server, scraper = _server(
            layout, keys, store, metrics, shared, hand_over, stack, issuers, class_resources, peers
        )
        await server.start()
        stack.push_async_callback(server.stop)
        starting = hand_over.client = Client(local_transport(server, STARTING), clock, randomness)
        await ensure_initial_objects(starting)
        await ensure_local_disks(starting)
        hosts = distinct(address.host, *address.also)
        own = reached_at(hosts)
        names = [address.host, *address.also, *address.names, *own]
        tls = ServerTls(pki, names, clock)
        context = tls.renewed()
        beside = Tasks()
        stack.push_async_callback(beside.close)
        if people.file is not None:
            beside.begin(follow(people.file, people.content, issuers, clock), "authentication configuration")
        beside.begin(
            supervise("token labels", partial(label_used_tokens, starting, shared.uses), clock), "token labels"
        )
        if store.shared:
            beside.begin(raise_format(starting, store), "raising the store's format")
        listener = await serve(
            server.handle, context, hosts, address.port, authenticates=server.authenticates, share_port=seat is not None
        )
        stack.push_async_callback(listener.stop)
        beside.begin(tls.keep(listener.use), "renewal of the server's certificate")
        beside.begin(Revocations(store).enforce(listener.end_certified), "ending connections of revoked certificates")
        ended = keys.authorities.enforce(listener.end_certified)
        beside.begin(ended, "ending connections of retired authorities")
        url = address_url(address, listener.port)
        own_kubeconfigs = OwnKubeconfigs(layout, pki, url).write if seat is None or seat.index == 0 else _nothing
        own_kubeconfigs()
        followed = keep_following(keys, clock, partial(tls.refresh, listener.use), own_kubeconfigs)
        beside.begin(followed, "following keys of the cluster")
        await ensure_own_service(starting, listener.port)
        kubeconfigs = (layout.kubeconfig, layout.controllers_kubeconfig)
        other_servers = partial(follow_in, kubeconfigs, starting, url)

        @asynccontextmanager
        async def duties() -> AsyncGenerator[None]:
            """The tasks that one process performs for the whole server."""
            async with (
                measuring(scraper, shared.metering, clock),
                announced(starting, own, listener.port, lambda: keys.words(tls), seat.stops if seat else lambda: True),
                background(keep_rotating(keys, clock), "rotation of keys"),
                background(supervise("other servers", other_servers, clock), "other servers"),
                _controllers(controllers, server, store, keys, metrics),
            ):
                yield

        await _on_duty(peers, duties, stack, clock)
        yield Running(server, store, listener, url, shared)


async def _started_store(layout: Layout, metrics: Metrics, stack: AsyncExitStack) -> tuple[Store, SecretSealer]:
    clock = SystemClock()
    sealer = SecretSealer.from_file(layout.encryption_key, Randomness())
    store = open_store(layout.store_url, sealer=sealer, clock=clock, observer=metrics.store_observed)
    async with background(_log_while_waiting(layout.store_url, clock), "waiting for the store"):
        await store.start()
    stack.push_async_callback(store.close)
    return store, sealer


async def _on_duty(
    peers: Peers | None, duties: Callable[[], AbstractAsyncContextManager[None]], stack: AsyncExitStack, clock: Clock
) -> None:
    """Perform the duties of the whole server while this process is the elected one."""
    if peers is None:
        await stack.enter_async_context(duties())
        return
    # Both end before anything they use: the stack closes in reverse order.
    together = Tasks()
    stack.push_async_callback(together.close)
    together.begin(supervise("links between workers", peers.run, clock), "links between workers")
    together.begin(supervise("duties", partial(while_lowest, peers, duties), clock), "duties")


def _nothing() -> None:
    """Do nothing: a different process of this server writes the kubeconfigs."""


async def _log_while_waiting(url: str, clock: Clock) -> None:
    """Log periodically while the start waits for the store."""
    began = clock.monotonic()
    while True:
        await clock.sleep(_LOG_INTERVAL)
        _log.warning("waiting for the store", store=url.partition("?")[0], seconds=round(clock.monotonic() - began))


def _server(
    layout: Layout,
    keys: ClusterKeys,
    store: Store,
    metrics: Metrics,
    shared: Shared,
    hand_over: HandOver,
    stack: AsyncExitStack,
    issuers: Issuers,
    class_resources: bool,
    peers: Peers | None,
) -> tuple[ApiServer, Scraper]:
    clock, randomness, pki = SystemClock(), Randomness(), keys.pki
    authorizer = Authorizer(store)
    authorizer.start()
    stack.callback(authorizer.stop)
    tokens = ServiceAccountTokens(store, keys.first_token_key, clock, uses=shared.uses)
    authenticator = Authenticator(store, tokens, authorizer, clock, issuers, keys.authorities)
    audit = AuditLog(layout.audit_log_of(peers.index) if peers else layout.audit_log, clock, randomness)
    stack.callback(audit.close)
    gates = RequestGates(authenticator, authorizer, Fairness(share=peers.count if peers else 1), audit)
    reader = Reader(store)
    catalog = build_catalog(StoreLookup(reader))
    chain = default_chain(reader, catalog, clock, randomness, authorizer, class_resources=class_resources)
    reviews = Reviews(authenticator, authorizer, clock, Revocations(store).refuses)
    issuer = TokenIssuer(store, tokens, clock, randomness)
    parts = ServerParts(store, catalog, gates, chain, clock, randomness, metrics, reviews=reviews, issuer=issuer)
    parts.usage = shared.metering
    tunnels, scraper = _join_nodes(parts, reader, pki, peers)
    parts.documents.update(tokens.documents())
    parts.documents[ROTATIONS_PATH] = RotationEndpoint(*keys.rotations).answer
    parts.documents[AUTHORITIES_PATH] = lambda _: Response(200, pki.ca_file.read_bytes(), "application/x-pem-file")
    parts.documents[SERVERS_PATH] = hand_over.answer
    repository_tokens = RepositoryTokens(authorizer, shared.repositories, pki.registry_tokens, clock, randomness)
    parts.documents[TOKENS_PATH] = repository_tokens.answer
    page = DashboardFiles(randomness)
    parts.documents |= {BELOW: page.answer, BELOW.rstrip("/"): page.answer}
    parts.ready.update(store.checks())
    if peers is not None:
        join(peers, parts, shared.metering, scraper)
    metrics.gauges.append(partial(health_metrics, parts.ready))
    certificates = {"ca": pki.ca_file, "server": pki.server_file}
    nodes = NodeSummaries(store)
    metrics.gauges.append(ClusterMetrics(store, clock, nodes, certificates, layout.data_dir, tunnels).families)
    parts.documents[TARGETS_PATH] = ScrapeTargets(store, nodes).answer
    return assemble(parts), scraper


def _join_nodes(parts: ServerParts, reader: Reader, pki: Pki, peers: Peers | None) -> tuple[NodeTunnels, Scraper]:
    """Connect the server to nodes: tunnels, dialing, and scraping of their metrics."""
    clock, tunnels = parts.clock, NodeTunnels(parts.randomness, peers)
    if peers is not None:
        peers.serve(tunnels)
    tls = NodeTls(pki.ca_file.read_text, lambda: pki.server_to_nodes(SERVER_TO_NODES), clock)
    ways = NodeRoutes(reader, tunnels, tls)
    parts.connections = NodeProxy(ways)
    parts.documents[TUNNELS_PATH] = tunnels.answer
    parts.metrics.gauges.append(tunnels.families)
    return tunnels, Scraper(reader, ways, clock)


@asynccontextmanager
async def _controllers(
    chosen: Chosen, server: ApiServer, store: Store, keys: ClusterKeys, metrics: Metrics
) -> AsyncGenerator[None]:
    """Run the controllers. If several servers share the store, only the leader's are active."""
    clock = SystemClock()
    client = Client(local_transport(server, CONTROLLING, bounded=clock), clock, Randomness())
    # Leader election bypasses the bound: a late renewal loses the lease.
    urgent = Client(local_transport(server, CONTROLLING), clock, Randomness())

    def sign(request: str, usages: list[str], expiration: int | None) -> str:
        return keys.pki.sign_request(request.encode(), usages, expiration or _YEAR).decode()

    manager = ControllerManager(
        client,
        chosen.names,
        root_ca=keys.pki.ca_file.read_text,
        sign=sign,
        sign_token=partial(secrettokens.sign, keys.tokens, Randomness()),
        elector=elector(urgent) if store.shared else None,
        settings=chosen.settings,
    )
    gauges = [manager.metrics.families, partial(leader_metrics, store, SystemClock(), lambda: manager.leading)]
    metrics.gauges += gauges
    try:
        async with background(supervise("controllers", manager.run, SystemClock()), "controllers"):
            yield
    finally:
        for each in gauges:  # a different process may report controller metrics from now on
            metrics.gauges.remove(each)


def local_transport(server: ApiServer, user: User, bounded: Clock | None = None) -> LocalTransport:
    """Return an in-process transport to the server under a fixed identity. Caches share the store's bytes.

    `bounded` is for clients that make thousands of requests in a row: these wait for time on the event loop.
    """

    def handle(
        method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> LocalAnswer | Awaitable[LocalAnswer]:
        answer = server.handle(Request(method, path, query, headers, body, user=user))
        return cast("LocalAnswer | Awaitable[LocalAnswer]", answer)

    return LocalTransport(handle, bounded)


def distinct(first: str, *others: str) -> list[str]:
    """Return the addresses to listen on: a wildcard address makes any other redundant."""
    return [first] if first in ("0.0.0.0", "::", "") else list(dict.fromkeys([first, *others]))


def address_url(address: Address, port: int) -> str:
    """Return the server's URL on its own host."""
    return f"https://[{address.host}]:{port}" if ":" in address.host else f"https://{address.host}:{port}"
