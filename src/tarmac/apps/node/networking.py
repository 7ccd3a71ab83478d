"""Composes networks managed by the agent: the datapath and its reconciler, the CNI relay, DNS and metadata."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Set
from contextlib import AsyncExitStack
from pathlib import Path

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.dns.informers import DnsInformers
from tarmac.agent.dns.nameserver import NameServer
from tarmac.agent.dns.resolver import Resolver
from tarmac.agent.dns.upstream import PORT, Upstream
from tarmac.agent.dns.view import DnsView
from tarmac.agent.egress.leases.addressconfig import write_key
from tarmac.agent.egress.leases.exchange import PrivateKey
from tarmac.agent.egress.nodefacts import private_key
from tarmac.agent.environment.resolving import read_resolv_conf
from tarmac.agent.http.api import ExternalConnections
from tarmac.agent.metadata.egressmetadata import PodEgress
from tarmac.agent.metadata.metadatatokens import MetadataTokens
from tarmac.agent.metadata.server import MetadataServer
from tarmac.agent.metadata.service import Identify, MetadataService
from tarmac.agent.model.podhub import PodHub
from tarmac.agent.model.tunnelstate import TunnelState
from tarmac.agent.network.attaching import InterfaceAttacher
from tarmac.agent.network.cni.cnifiles import write_files
from tarmac.agent.network.cni.server import CniServer
from tarmac.agent.network.compiler.instancetunnels import keyless
from tarmac.agent.network.dialing import PodDialer, interfaces_of
from tarmac.agent.network.egressconnections import LocalExternalConnections
from tarmac.agent.network.orphanlinks import OrphanLinkSweeper
from tarmac.agent.network.reconciler import NetworkReconciler
from tarmac.agent.network.taps import MachineTaps
from tarmac.agent.network.tunnels.means import TunnelMeans
from tarmac.agent.network.tunnels.tunnelprobes import TunnelProbes
from tarmac.agent.node.nodehub import NodeHub
from tarmac.agent.node.underlay import UnderlayAnnotation
from tarmac.agent.portprobes.answering import PortAnswers
from tarmac.agent.portprobes.portmessages import PortSeals
from tarmac.agent.routerservices import RouterServices
from tarmac.api.networking.names import TOPOLOGY_CITY_CODE
from tarmac.api.networking.tunnels import MAX_NAMED
from tarmac.api.schema import JsonObject
from tarmac.apps.node.nodeegress import PRIVATE_KEY, NodeExternal
from tarmac.apps.node.nodeingress import NodeIngress
from tarmac.client.eventrecorder import Recorder
from tarmac.client.informer import Informers
from tarmac.datapath.interface import NodeNetworks
from tarmac.datapath.linux import LinuxDatapath
from tarmac.datapath.linux.egress.wireguard import WireGuardPrograms
from tarmac.runtimes.interface import Runtime
from tarmac.runtimes.parts import optional_program

_SOCKET = "cni.sock"
Runs = dict[str, Callable[[], Awaitable[None]]]


class Networking:
    """Networks of a node."""

    def __init__(
        self,
        config: AgentConfig,
        informers: Informers,
        recorder: Recorder,
        pods: PodHub,
        node: NodeHub,
        stack: AsyncExitStack,
    ) -> None:
        client = informers.client
        self._config = config
        self._informers = informers
        self._client = client
        self._clock = client.clock
        self._pods = pods
        self._node = node
        private = private_key(config.root_dir / PRIVATE_KEY, client.randomness.randbytes)
        self.datapath = LinuxDatapath(
            config.flags.run_dir,
            private_key=private,
            wireguard=wireguard_programs,
            conntrackd=optional_program("conntrackd"),
            bird=optional_program("bird"),
        )
        self._serves = False
        stack.push_async_callback(self.datapath.close)
        stack.push_async_callback(self.hand_over)  # runs before the close: it drops addresses from the kernel
        self.dial = PodDialer(self.datapath)
        self._keeper = NetworkReconciler(informers, self.datapath, config.node_name, node.addresses, recorder)
        self._interfaces = InterfaceAttacher(self.datapath, pods.find, self._keeper.wait_until_applied)
        self.taps = MachineTaps(self.datapath, self._interfaces)
        self.external = NodeExternal(config, client, informers, self.datapath.external, node.addresses, recorder)
        self._keeper.on_networks(self.external.networks_changed)
        self.ingress = NodeIngress(
            config, client, informers, self.datapath, node.addresses, lambda: _ranges(self._keeper.applied)
        )
        self._keeper.on_networks(self.ingress.networks_changed)
        self._probes = TunnelProbes(
            lambda: self._keeper.endpoints,
            self.datapath,
            node.addresses,
            lambda: self._keeper.applied,
            self._problems,
            node.wake,
            self._clock,
            client.randomness,
        )
        self._ports = PortAnswers(
            lambda: self._keeper.endpoints, node.addresses, PortSeals(private), self._clock, client.randomness
        )
        self._means = TunnelMeans(self.datapath.tunnels, write_key(PrivateKey(private).public), self._clock, node.wake)

    def tunnel(self, published: str) -> str:
        """Return the annotation about this node's tunnels, given the published one; empty to leave that unchanged."""
        return self._means.annotation(published)

    def tunnel_state(self) -> TunnelState | None:
        """Return the state of tunnels to other nodes for the Node's status."""
        return self._probes.state()

    async def hand_over(self) -> None:
        """Hand the addresses of external services over to other nodes."""
        if self._serves:
            await self.external.stop()
            await self.ingress.stop()

    def serve(self, runtime: Runtime, identify: Identify) -> Runs:
        """Return the tasks to run, by name."""
        self._serves = True
        flags, keeper = self._config.flags, self._keeper
        path = flags.run_dir / _SOCKET
        write_files(flags.cni_bin_dir, flags.cni_conf_dir, path)

        async def live() -> Set[str]:
            return {sandbox.id for sandbox in await runtime.sandboxes()}

        return {
            "networks": keeper.run,
            "cni": CniServer(path, self._interfaces).run,
            "links": OrphanLinkSweeper(self.datapath, live, self._clock).run,
            "tunnel probes": self._probes.run,
            "tunnel means": self._means.run,
            "port answers": self._ports.run,
            "underlay": UnderlayAnnotation(self._client, self._config.node_name, self._node.addresses).run,
            **self.external.runs(),
            **self.ingress.runs(),
            **self._router_services(keeper, _Behind(self.datapath, self._pods, keeper), identify),
        }

    def _problems(self) -> list[str]:
        """Return the reasons why tunnels that must be encrypted are not."""
        tunnels = self._keeper.applied.tunnels
        if tunnels.peers and self.datapath.tunnels.failed:
            return [f"encryption fails on this node: {self.datapath.tunnels.failed}"]
        names = keyless(tunnels, self._keeper.endpoints)[:MAX_NAMED]
        return [f"{each} cannot encrypt: install wireguard-tools there" for each in names]

    def external_connections(self) -> ExternalConnections:
        """Return the query for this node's connections of external services."""
        name, pods = self._config.node_name, self._pods.pods
        return LocalExternalConnections(self._informers, name, self.datapath.external, pods).of

    def _router_services(self, keeper: NetworkReconciler, behind: _Behind, identify: Identify) -> Runs:
        """Return the tasks that serve DNS and metadata in every network."""
        view = DnsView()
        DnsInformers(self._informers, view)
        names = NameServer(Resolver(view, self._config.kubelet.cluster_domain), self._upstream(), behind.networks)
        tokens = MetadataTokens(self._clock, self._client.randomness)
        city = self._config.labels.get(TOPOLOGY_CITY_CODE, "")
        egress = PodEgress(self._informers, self._config.node_name)
        metadata = MetadataServer(MetadataService(tokens, identify, city, egress.of), behind.pod)
        services = RouterServices(self.datapath, self._clock, [*names.services(), *metadata.services()])

        async def set_networks(networks: Set[str]) -> None:
            services.set_networks(networks)

        async def serve() -> None:
            await metadata.start()
            try:
                await services.run()
            finally:
                await metadata.stop()

        keeper.on_networks(set_networks)
        return {"router services": serve}

    def _upstream(self) -> Upstream:
        path = self._config.kubelet.resolv_conf
        servers = read_resolv_conf(Path(path)).servers if path else ()
        return Upstream([(server, PORT) for server in servers], self._clock, self._client.randomness)


def _ranges(applied: NodeNetworks) -> dict[str, tuple[str, ...]]:
    return {each.name: each.ranges for each in applied.networks}


class _Behind:
    """Maps links to pods. A sandbox is never reused for another pod, so results are cached."""

    def __init__(self, datapath: LinuxDatapath, pods: PodHub, keeper: NetworkReconciler) -> None:
        self._datapath = datapath
        self._pods = pods
        self._keeper = keeper
        self._known: dict[str, tuple[str, str, str]] = {}

    def pod(self, network: str, link: int) -> JsonObject | None:
        """Return the pod behind a link, if known."""
        sandbox = self._datapath.sandbox_of(network, link)
        if not sandbox:
            return None
        if sandbox not in self._known:
            self._known = {
                identity: (each["metadata"]["namespace"], each["metadata"]["name"], each["metadata"]["uid"])
                for each in self._pods.pods()
                if (identity := self._pods.sandbox_id(each)) is not None
            }
        return self._pods.find(*self._known[sandbox]) if sandbox in self._known else None

    def networks(self, network: str, link: int) -> Collection[str]:
        """Return the client's networks, at least the one of its request. The node itself has all networks."""
        if self._datapath.sandbox_of(network, link) == "":
            return self._keeper.networks
        pod = self.pod(network, link)
        return {network, *(each.network for each in interfaces_of(pod))} if pod is not None else {network}


def wireguard_programs() -> WireGuardPrograms:
    """Return the installed programs; a node without them works, and reports that it cannot encrypt."""
    return WireGuardPrograms(optional_program("wg"), optional_program("wireguard-go"))
