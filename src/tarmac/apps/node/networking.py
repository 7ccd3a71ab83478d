"""Networks made by the agent: the datapath and what keeps it, the relay the runtime calls, names and metadata."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence, Set
from contextlib import AsyncExitStack
from pathlib import Path

from tarmac.agent.config.settings import AgentConfig
from tarmac.agent.dns.informers import Following
from tarmac.agent.dns.resolver import Resolver
from tarmac.agent.dns.server import NameServer
from tarmac.agent.dns.upstream import PORT, Upstream
from tarmac.agent.dns.view import DnsView
from tarmac.agent.environment.resolving import read_resolv_conf
from tarmac.agent.metadata.server import MetadataServer
from tarmac.agent.metadata.service import Identify, MetadataService
from tarmac.agent.metadata.tokens import MetadataTokens
from tarmac.agent.network.admission import unconnected
from tarmac.agent.network.attaching import PodInterfaces
from tarmac.agent.network.cni.files import write_files
from tarmac.agent.network.cni.server import CniServer
from tarmac.agent.network.dialing import PodDialer, interfaces_of
from tarmac.agent.network.leftovers import Sweeper
from tarmac.agent.network.reconciler import NetworkKeeper
from tarmac.agent.node.underlay import UnderlayAnnotation
from tarmac.agent.pods.manager import PodManager
from tarmac.agent.routerservices import Attending
from tarmac.api.networking.names import TOPOLOGY_CITY_CODE
from tarmac.api.schema import JsonObject
from tarmac.client.client import Client
from tarmac.client.events import Recorder
from tarmac.client.informer import Informers
from tarmac.datapath.linux import LinuxDatapath
from tarmac.runtimes.interface import Runtime

_SOCKET = "cni.sock"
Runs = dict[str, Callable[[], Awaitable[None]]]


class Networking:
    """Made before there are pods, since they are dialled through it; told of them by `serve`."""

    def __init__(self, config: AgentConfig, client: Client, stack: AsyncExitStack) -> None:
        self.informers = Informers(client)
        self._config = config
        self._client = client
        self._clock = client.clock
        self._datapath = LinuxDatapath(config.flags.run_dir)
        stack.push_async_callback(self._datapath.close)
        self.dial = PodDialer(self._datapath)

    def serve(
        self,
        pods: PodManager,
        runtime: Runtime,
        addresses: Callable[[], Sequence[str]],
        identify: Identify,
        recorder: Recorder,
    ) -> Runs:
        """What has to run, by name."""
        flags = self._config.flags
        keeper = NetworkKeeper(self.informers, self._datapath, self._config.node_name, addresses, recorder)
        path = flags.run_dir / _SOCKET
        pods.add_admission(unconnected)
        write_files(flags.cni_bin_dir, flags.cni_conf_dir, path)

        async def live() -> Set[str]:
            return {sandbox.id for sandbox in await runtime.sandboxes()}

        return {
            "networks": keeper.run,
            "cni": CniServer(path, PodInterfaces(self._datapath, pods.find, keeper.covered)).run,
            "links": Sweeper(self._datapath, live, self._clock).run,
            "underlay": UnderlayAnnotation(self._client, self._config.node_name, addresses).run,
            **self._doors(keeper, _Behind(self._datapath, pods, keeper), identify),
        }

    def _doors(self, keeper: NetworkKeeper, behind: _Behind, identify: Identify) -> Runs:
        """What pods find in every network: names, and facts about themselves."""
        view = DnsView()
        Following(self.informers, view)
        names = NameServer(Resolver(view, self._config.kubelet.cluster_domain), self._upstream(), behind.networks)
        tokens = MetadataTokens(self._clock, self._client.randomness)
        city = self._config.labels.get(TOPOLOGY_CITY_CODE, "")
        metadata = MetadataServer(MetadataService(tokens, identify, city), behind.pod)
        attending = Attending(self._datapath, self._clock, [*names.doors(), *metadata.doors()])

        async def attend(networks: Set[str]) -> None:
            attending.attend(networks)

        async def open_doors() -> None:
            await metadata.start()
            try:
                await attending.run()
            finally:
                await metadata.stop()

        keeper.on_networks(attend)
        return {"doors": open_doors}

    def _upstream(self) -> Upstream:
        told = self._config.kubelet.resolv_conf
        servers = read_resolv_conf(Path(told)).servers if told else ()
        return Upstream([(server, PORT) for server in servers], self._clock, self._client.randomness)


class _Behind:
    """Which pod is behind a link. A sandbox is never given to another pod, so what is found is remembered."""

    def __init__(self, datapath: LinuxDatapath, pods: PodManager, keeper: NetworkKeeper) -> None:
        self._datapath = datapath
        self._pods = pods
        self._keeper = keeper
        self._known: dict[str, tuple[str, str, str]] = {}

    def pod(self, network: str, link: int) -> JsonObject | None:
        """The pod, if anybody knows it."""
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
        """Its networks; at least the one it asks on. The node itself, whichever it asks on, has all that are there."""
        if self._datapath.sandbox_of(network, link) == "":
            return self._keeper.networks
        pod = self.pod(network, link)
        return {network, *(each.network for each in interfaces_of(pod))} if pod is not None else {network}
