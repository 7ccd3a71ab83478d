"""Runs a selected set of controllers, alone or as the elected leader.

The selection has the syntax of kube-controller-manager's `--controllers`: `*` is all, a name adds one, `-name` removes
one, and the most specific word wins. `workloads` stands for the controllers that only manage Workloads, for clusters
that already have the other controllers.

With leader election, all parts are built anew for each leadership, over a fenced client: caches, queues and controllers
of an ended leadership are never reused.

The client is that of the process and fills the caches; each controller acts through it under its own user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Final, Protocol

from tarmac.client.client import Client
from tarmac.client.clientmetrics import ClientMetrics
from tarmac.client.eventrecorder import Recorder
from tarmac.client.informer import Informers
from tarmac.client.leader import Elector, FencedTransport, Leadership
from tarmac.controllers.autoscaler.controller import AutoscalerController
from tarmac.controllers.catalogue.controller import InstanceTypeController, MachineImageController
from tarmac.controllers.certificates.controller import CertificateController
from tarmac.controllers.clusterrole.controller import ClusterRoleController
from tarmac.controllers.context import ControllerContext, RootCa, Settings, Sign, SignToken, no_root_ca
from tarmac.controllers.deployment.controller import DeploymentController
from tarmac.controllers.disruption.controller import DisruptionController
from tarmac.controllers.egress.controller import EgressController
from tarmac.controllers.endpointslicemirroring.controller import MirroringController
from tarmac.controllers.garbage.collector import GarbageCollector
from tarmac.controllers.ingress.controller import IngressController
from tarmac.controllers.instance.controller import InstanceReconciler
from tarmac.controllers.ipam import AddressBook
from tarmac.controllers.location.controller import LocationController
from tarmac.controllers.metricsources import MetricsSource
from tarmac.controllers.namespace.controller import NamespaceController
from tarmac.controllers.network.controller import NetworkControllers
from tarmac.controllers.node.controller import NodeController
from tarmac.controllers.quota.controller import QuotaController
from tarmac.controllers.scheduler.controller import Schedulers
from tarmac.controllers.service.controller import ServiceController
from tarmac.controllers.serviceaccount.controller import ServiceAccountController
from tarmac.controllers.serviceaccount.tokens import TokenController
from tarmac.controllers.serviceaddress.controller import ServiceAddressController
from tarmac.controllers.volume.controller import VolumeControllers
from tarmac.controllers.workload.controller import WorkloadController


class Runnable(Protocol):
    """A controller that works until cancelled."""

    async def run(self) -> None:
        """Work until cancelled."""
        ...


Build = Callable[[ControllerContext], Runnable]


def _garbage(context: ControllerContext) -> GarbageCollector:
    collector = GarbageCollector(context.client, context.recorder)
    context.metrics.controllers.append(collector.controller)
    return collector


CONTROLLERS: Mapping[str, Build] = {
    "garbage": _garbage,
    "namespace": NamespaceController,
    "serviceaccount": ServiceAccountController,
    "serviceaccounttoken": TokenController,
    "clusterrole": ClusterRoleController,
    "certificates": CertificateController,
    "volume": VolumeControllers,
    "service": ServiceController,
    "endpointslicemirroring": MirroringController,
    "serviceaddress": ServiceAddressController,
    "workload": WorkloadController,
    "deployment": DeploymentController,
    "instance": InstanceReconciler,
    "scheduler": Schedulers,
    "instancetype": InstanceTypeController,
    "machineimage": MachineImageController,
    "network": NetworkControllers,
    "location": LocationController,
    "node": NodeController,
    "quota": QuotaController,
    "disruption": DisruptionController,
    "autoscaler": AutoscalerController,
    "external": EgressController,
    "ingress": IngressController,
}


WORKLOADS: Final = "workloads"
_OF_WORKLOADS: Final = (
    "workload",
    "deployment",
    "instance",
    "scheduler",
    "instancetype",
    "machineimage",
    "network",
    "location",
    "quota",
    "autoscaler",
    "external",
    "ingress",
)


def choose(words: str, known: Mapping[str, Build] = CONTROLLERS) -> list[str]:
    """Return the names that `words` selects, in the order of `known`. Raises ValueError for an unknown name."""
    chosen = [word.strip() for word in words.split(",") if word.strip()]
    if WORKLOADS in chosen:
        chosen = [*_OF_WORKLOADS, *(word for word in chosen if word != WORKLOADS)]
    unknown = {word.removeprefix("-") for word in chosen} - known.keys() - {"*"}
    if unknown:
        raise ValueError(f"no such controller: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return [name for name in known if f"-{name}" not in chosen and (name in chosen or "*" in chosen)]


class ControllerManager:
    """The controllers of one process."""

    def __init__(
        self,
        client: Client,
        names: str = "*",
        *,
        root_ca: RootCa = no_root_ca,
        sign: Sign | None = None,
        sign_token: SignToken | None = None,
        elector: Elector | None = None,
        settings: Settings | None = None,
        metrics_source: MetricsSource | None = None,
        networked: bool = True,
        controllers: Mapping[str, Build] = CONTROLLERS,
    ) -> None:
        self.metrics = ClientMetrics()
        self._client = client
        self._names = choose(names, controllers)
        self._root_ca = root_ca
        self._sign = sign
        self._sign_token = sign_token
        self._elector = elector
        self._settings = settings or Settings()
        self._metrics_source = metrics_source
        self._networked = networked
        self._controllers = controllers
        if elector is not None:
            self.metrics.electors.append(elector)

    @property
    def leading(self) -> bool | None:
        """Return True if these controllers are active; None when none is selected."""
        if not self._names:
            return None
        return self._elector is None or self._elector.leading

    async def run(self) -> None:
        """Work until cancelled."""
        if self._elector is None:
            await self._run(self._client)
        else:
            await self._elector.run(self._lead)

    async def _lead(self, leadership: Leadership) -> None:
        # Fenced: a process that has lost its leadership without noticing must not write beside the new leader.
        transport = FencedTransport(self._client.transport, leadership)
        await self._run(Client(transport, self._client.clock, self._client.randomness))

    async def _run(self, client: Client) -> None:
        # Metrics of an ended leadership must not be reported beside the new ones.
        self.metrics.controllers.clear()
        self.metrics.informers.clear()
        self.metrics.others.clear()
        # Created anew for each leadership: a cache filled before another process led may lack that process's writes.
        informers = Informers(client)
        self.metrics.informers.append(informers)
        recorders: list[Recorder] = []
        context_of = partial(
            ControllerContext,
            informers=informers,
            metrics=self.metrics,
            book=cache(partial(AddressBook, informers)),
            recorders=recorders,
            root_ca=self._root_ca,
            sign=self._sign,
            sign_token=self._sign_token,
            settings=self._settings,
            metrics_source=self._metrics_source,
            running=frozenset(self._names),
            networked=self._networked,
        )
        # Built before the informers start: the first list reaches every handler and index.
        controllers = [self._controllers[name](context_of(name)) for name in self._names]
        async with asyncio.TaskGroup() as group:
            # One group: a part that fails ends all of them, instead of leaving a leader without it.
            for part in (informers, *recorders, *controllers):
                group.create_task(part.run(), name=type(part).__qualname__)
