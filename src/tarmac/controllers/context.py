"""Dependencies of every controller.

Caches, metrics and the address book are shared by all controllers of a process. Each controller has its own client: its
requests and events carry its own user, so that its role limits it and the audit log names it. The caches are filled
under the identity of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from tarmac.api.identities import PROCESS, TokenHolder, controller_user
from tarmac.client.acting import ActingAs
from tarmac.client.client import Client
from tarmac.client.clientmetrics import ClientMetrics
from tarmac.client.controller import Controller, Reconcile
from tarmac.client.eventrecorder import Recorder
from tarmac.client.informer import Informers
from tarmac.controllers.ipam import AddressBook
from tarmac.controllers.metricsources import MetricsSource

Sign = Callable[[str, list[str], int | None], str]
"""sign(request PEM, usages, expiration in seconds or None) -> certificate PEM.

Raises ValueError for a request it cannot sign.
"""

RootCa = Callable[[], str]
"""Return the current CA certificates of the server as PEM; empty where they are not known."""

SignToken = Callable[[TokenHolder], str]
"""sign_token(token holder with its Secret) -> the token."""


def no_root_ca() -> str:
    """Return no CA: another component publishes the cluster's CA bundle, or none does."""
    return ""


DEFAULT_SCHEDULER: Final = "default-scheduler"  # of pods that name none


@dataclass(frozen=True)
class Settings:
    """Settings of the operator. Durations are in seconds."""

    node_grace: float = 40.0  # time without a heartbeat before a node counts as silent
    metrics_url: str = ""  # Prometheus for external metrics of Locations that name none
    autoscaling_period: float = 15.0  # interval between two readings of a deployment's metrics
    # spec.schedulerName values that this scheduler serves
    scheduler_names: tuple[str, ...] = ("tarmac", DEFAULT_SCHEDULER)
    class_resources: bool = False  # the feature gate ClassResources: pods get nodes that offer their classes
    way_in: bool = False  # the feature gate WayIn: Services and Workloads get public addresses

    @property
    def schedules_the_cluster(self) -> bool:
        """Return True if pods that name no scheduler are ours.

        Beside another cluster scheduler this is False, and no pod is preempted for ours.
        """
        return DEFAULT_SCHEDULER in self.scheduler_names


@dataclass(frozen=True)
class ControllerContext:
    """The client of one controller, the shared caches, and dependencies that only the composition root has."""

    name: str  # the controller's name
    informers: Informers
    metrics: ClientMetrics
    book: Callable[[], AddressBook]  # shared by all controllers of the process
    recorders: list[Recorder]  # all recorders of the process; the manager runs them
    root_ca: RootCa = no_root_ca
    sign: Sign | None = None  # None: certificates are approved but not signed here
    sign_token: SignToken | None = None  # None: this process writes no tokens into Secrets
    settings: Settings = Settings()
    metrics_source: MetricsSource | None = None  # None: Prometheus and the server's own resource metrics
    running: frozenset[str] = frozenset()  # the controllers of this process, by name
    networked: bool = True  # pods are connected by our Networks; False beside a foreign API server

    def acting_as(self, name: str) -> ControllerContext:
        """Return the context of another controller of this process."""
        return replace(self, name=name)

    @cached_property
    def client(self) -> Client:
        """A client that acts as this controller's user."""
        process = self.informers.client
        # Under its own user: with the process's rights, a permission missing in the role would go unnoticed.
        transport = ActingAs(process.transport, controller_user(self.name))
        return Client(transport, process.clock, process.randomness)

    @cached_property
    def recorder(self) -> Recorder:
        """Recorder for this controller's events."""
        made = Recorder(self.client, PROCESS)
        self.recorders.append(made)
        return made

    @property
    def addresses(self) -> AddressBook:
        """The address book, shared by all controllers of this process."""
        # One book per process: two would assign the same address.
        return self.book()

    def controller(self, name: str, reconcile: Reconcile, workers: int = 4) -> Controller:
        """Create a controller on this context's clock and register it with the metrics."""
        made = Controller(name, reconcile, clock=self.client.clock, randomness=self.client.randomness, workers=workers)
        self.metrics.controllers.append(made)
        return made
