"""The control plane of one process: store, API server, listener and controllers, wired together.

Start order matters: keys before anything that signs, the store before anything that reads, policy before the first
request, the listener before the ready line, controllers last. Shutdown is in reverse order, so no accepted request is
lost: the listener completes requests in flight, then the store writes its pending changes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
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
from tarmac.apps.workers.serving import OneOfSeveral, UsageOfLowest, measuring, while_lowest
from tarmac.base.clock import Clock, SystemClock
from tarmac.base.gates import CLASS_RESOURCES, WAY_IN
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.base.signals import Signal
from tarmac.base.tasks import Tasks, background, supervise
from tarmac.client.client import Client
from tarmac.client.local import LocalAnswer, LocalTransport
from tarmac.controllers.context import Settings
from tarmac.controllers.manager import ControllerManager
from tarmac.dashboard.files import BELOW, DashboardFiles
from tarmac.dashboard.signin import SignIn
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
from tarmac.server.nodes.localnodes import LocalNodes
from tarmac.server.nodes.nodeendpoints import NodeRoutes, NodeTls
from tarmac.server.nodes.nodeproxy import NodeProxy
from tarmac.server.nodes.scraping import Scraper
from tarmac.server.nodes.tunnels import PREFIX as TUNNELS_PATH
from tarmac.server.nodes.tunnels import NodeTunnels
from tarmac.server.nodesummaries import NodeSummaries
from tarmac.server.reader import Reader
from tarmac.server.security.audit.auditlog import AuditLog
from tarmac.server.security.authentication.authenticate import Authenticator
from tarmac.server.security.authentication.openid.following import follow
from tarmac.server.security.authentication.openid.issuers import Issuers
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.authorization.defaults import ensure_defaults
from tarmac.server.security.authorization.policy import SERVER_TO_NODES
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.certificates.renewal import ServerTls
from tarmac.server.security.certificates.revocations import Revocations
from tarmac.server.security.fairness import Fairness
from tarmac.server.security.keys.encryption import SecretSealer
from tarmac.server.security.keys.rotation import RotationEndpoint
from tarmac.server.security.reviews import Reviews
from tarmac.server.security.tokens import secrettokens
from tarmac.server.security.tokens.repositoryroom import RepositoryRoom
from tarmac.server.security.tokens.repositorytokens import RepositoryTokens
from tarmac.server.security.tokens.serviceaccounts import ServiceAccountTokens
from tarmac.server.security.tokens.tokenrequests import TokenIssuer
from tarmac.server.security.tokens.tokenuses import TokenUses
from tarmac.server.security.users import User, account_groups
from tarmac.server.subresources.usagemetrics import Metering, NoUsage
from tarmac.server.usagehistory import UsageHistory
from tarmac.server.workers.peers import WorkerPeers
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
    past_usage: UsageHistory  # and ready instances of the last minutes, for charts
    uses: TokenUses  # of tokens stored in Secrets
    repositories: RepositoryRoom  # state of the registry, if there is one
    local_nodes: LocalNodes  # simulated nodes of this process


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
    features: Collection[str] = (),
    people: Authentication = CERTIFICATES_ONLY,
    seat: Seat | None = None,
) -> AsyncGenerator[Running]:
    """Serve until the block ends, together with the chosen controllers. `features`: the server's gates that are on.

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
        issuers = Issuers(store, clock)
        stack.push_async_callback(issuers.close)
        await issuers.use(people.issuers)
        peers = WorkerPeers(seat.folder, seat.index, seat.count, clock) if seat else None
        metering = Metering(UsageOfLowest(peers) if peers else NoUsage())
        past_usage = UsageHistory(metering, store, clock)
        shared = Shared(metering, past_usage, TokenUses(clock), RepositoryRoom(Reader(store)), LocalNodes())
        joined = _join_nodes(store, pki, metrics, clock, randomness, peers)
        own_requests = OwnRequests()
        starting = Client(LocalTransport(partial(own_requests.handle, STARTING)), clock, randomness)
        hand_over = HandOver(layout, starting, shared=store.shared)
        server = _server(layout, keys, store, metrics, shared, hand_over, stack, issuers, features, joined)
        own_requests.serve(server)
        await server.start()
        stack.push_async_callback(server.stop)
        await ensure_initial_objects(starting)
        await ensure_local_disks(starting)
        hosts = distinct(address.host, *address.also)
        own = reached_at(hosts)
        tls = ServerTls(pki, [address.host, *address.also, *address.names, *own], clock)
        context = tls.renewed()
        beside = Tasks()
        stack.push_async_callback(beside.close)
        if people.file is not None:
            beside.begin(follow(people.file, people.content, issuers, clock), "authentication configuration")
        _begin_records(beside, shared, starting, clock)
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
                measuring(joined.scraper, metering, clock),
                announced(starting, own, listener.port, lambda: keys.words(tls), seat.stops if seat else lambda: True),
                background(keep_rotating(keys, clock), "rotation of keys"),
                background(supervise("other servers", other_servers, clock), "other servers"),
                _controllers(controllers, server, store, keys, metrics),
            ):
                yield

        await _on_duty(joined.one_of_several, duties, stack, clock)
        yield Running(server, store, listener, url, shared)


def _begin_records(beside: Tasks, shared: Shared, client: Client, clock: Clock) -> None:
    """Begin the tasks that keep record of tokens and of usage."""
    labels = partial(label_used_tokens, client, shared.uses)
    beside.begin(supervise("token labels", labels, clock), "token labels")
    beside.begin(supervise("usage history", shared.past_usage.run, clock), "usage history")


async def _started_store(layout: Layout, metrics: Metrics, stack: AsyncExitStack) -> tuple[Store, SecretSealer]:
    clock = SystemClock()
    sealer = SecretSealer.from_file(layout.encryption_key, Randomness())
    store = open_store(layout.store_url, sealer=sealer, clock=clock, observer=metrics.store_observed)
    async with background(_log_while_waiting(layout.store_url, clock), "waiting for the store"):
        await store.start()
    stack.push_async_callback(store.close)
    return store, sealer


async def _on_duty(
    worker: OneOfSeveral | None,
    duties: Callable[[], AbstractAsyncContextManager[None]],
    stack: AsyncExitStack,
    clock: Clock,
) -> None:
    """Perform the duties of the whole server while this process is the elected one."""
    if worker is None:
        await stack.enter_async_context(duties())
        return
    # Both end before anything they use: the stack closes in reverse order.
    together = Tasks()
    stack.push_async_callback(together.close)
    together.begin(supervise("links between workers", worker.run, clock), "links between workers")
    together.begin(supervise("duties", partial(while_lowest, worker.peers, duties), clock), "duties")


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
    features: Collection[str],
    joined: _JoinedNodes,
) -> ApiServer:
    clock, randomness, pki = SystemClock(), Randomness(), keys.pki
    peers = joined.one_of_several.peers if joined.one_of_several else None
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
    repository_tokens = RepositoryTokens(authorizer, shared.repositories, pki.registry_tokens, clock, randomness)
    page = DashboardFiles(randomness, sign_in=SignIn(issuers, clock).answer)
    nodes = NodeSummaries(store)
    certificates = {"ca": pki.ca_file, "server": pki.server_file}
    ready = store.checks()
    cluster = ClusterMetrics(store, clock, nodes, certificates, layout.data_dir, joined.tunnels)
    metrics.register(partial(health_metrics, ready), cluster.families)
    return assemble(
        ServerParts(
            store,
            catalog,
            gates,
            default_chain(
                reader,
                catalog,
                clock,
                randomness,
                authorizer,
                class_resources=CLASS_RESOURCES in features,
                way_in=WAY_IN in features,
            ),
            clock,
            randomness,
            metrics,
            connections=NodeProxy(joined.ways, shared.local_nodes),
            usage=shared.metering,
            past_usage=shared.past_usage,
            reviews=Reviews(authenticator, authorizer, clock, Revocations(store).refuses),
            issuer=TokenIssuer(store, tokens, clock, randomness),
            documents={
                TUNNELS_PATH: joined.tunnels.answer,
                **tokens.documents(),
                ROTATIONS_PATH: RotationEndpoint(*keys.rotations).answer,
                AUTHORITIES_PATH: lambda _: Response(200, pki.ca_file.read_bytes(), "application/x-pem-file"),
                SERVERS_PATH: hand_over.answer,
                TOKENS_PATH: repository_tokens.answer,
                BELOW: page.answer,
                BELOW.rstrip("/"): page.answer,
                TARGETS_PATH: ScrapeTargets(store, nodes).answer,
                **({"/metrics": joined.one_of_several.figures} if joined.one_of_several else {}),
            },
            ready=ready,
            ready_elsewhere=peers.checks() if peers else {},
        )
    )


@dataclass(frozen=True)
class _JoinedNodes:
    """The connections to nodes: tunnels, dialing, and scraping of their metrics; shared with the other workers."""

    tunnels: NodeTunnels
    ways: NodeRoutes
    scraper: Scraper
    one_of_several: OneOfSeveral | None


def _join_nodes(
    store: Store, pki: Pki, metrics: Metrics, clock: Clock, randomness: Randomness, peers: WorkerPeers | None
) -> _JoinedNodes:
    tunnels_changed: Signal[[str, bool]] = Signal()
    tunnels = NodeTunnels(randomness, peers, tunnels_changed)
    tls = NodeTls(pki.ca_file.read_text, lambda: pki.server_to_nodes(SERVER_TO_NODES), clock)
    reader = Reader(store)
    ways = NodeRoutes(reader, tunnels, tls)
    scraper = Scraper(reader, ways, clock)
    metrics.register(tunnels.families)
    worker = None
    if peers is not None:
        worker = OneOfSeveral(peers, tunnels, tunnels_changed, scraper, metrics, store.checks(), clock)
    return _JoinedNodes(tunnels, ways, scraper, worker)


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
    leader = partial(leader_metrics, store, SystemClock(), lambda: manager.leading)
    with metrics.registered(manager.metrics.families, leader):
        async with background(supervise("controllers", manager.run, SystemClock()), "controllers"):
            yield


class OwnRequests:
    """In-process requests to a server whose own parts make some: they exist before the server does."""

    def __init__(self) -> None:
        self._server: ApiServer | None = None

    def serve(self, server: ApiServer) -> None:
        """Pass requests to this server from now on."""
        self._server = server

    def handle(
        self, user: User, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> LocalAnswer | Awaitable[LocalAnswer]:
        """Handle one request under a fixed identity."""
        assert self._server is not None, "the server has been assembled"
        return _handled(self._server, user, method, path, query, headers, body)


def local_transport(server: ApiServer, user: User, bounded: Clock | None = None) -> LocalTransport:
    """Return an in-process transport to the server under a fixed identity. Caches share the store's bytes.

    `bounded` is for clients that make thousands of requests in a row: these wait for time on the event loop.
    """
    return LocalTransport(partial(_handled, server, user), bounded)


def _handled(
    server: ApiServer, user: User, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
) -> LocalAnswer | Awaitable[LocalAnswer]:
    answer = server.handle(Request(method, path, query, headers, body, user=user))
    return cast("LocalAnswer | Awaitable[LocalAnswer]", answer)


def distinct(first: str, *others: str) -> list[str]:
    """Return the addresses to listen on: a wildcard address makes any other redundant."""
    return [first] if first in ("0.0.0.0", "::", "") else list(dict.fromkeys([first, *others]))


def address_url(address: Address, port: int) -> str:
    """Return the server's URL on its own host."""
    return f"https://[{address.host}]:{port}" if ":" in address.host else f"https://{address.host}:{port}"
