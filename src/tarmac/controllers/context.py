"""What every controller is given.

Caches, metrics and addresses are the same for all controllers of a process. The way to the server is each one's own:
its requests and its events carry its own user, so that it can do what its role says and the audit log names it. Caches
are fed under the identity of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from tarmac.api.identities import PROCESS, TokenHolder, controller_user
from tarmac.client.acting import ActingAs
from tarmac.client.client import Client
from tarmac.client.controller import Controller, Reconcile
from tarmac.client.events import Recorder
from tarmac.client.informer import Informers
from tarmac.client.metrics import ClientMetrics
from tarmac.controllers.ipam import AddressBook
from tarmac.controllers.metricsources import MetricsSource

Sign = Callable[[str, list[str], int | None], str]
"""sign(request PEM, usages, expiration in seconds or None) -> certificate PEM.

Raises ValueError for a request it cannot sign.
"""

RootCa = Callable[[], str]
"""PEM of the authorities that vouch for the server, as they are now; empty where they are not known."""

SignToken = Callable[[TokenHolder], str]
"""sign_token(whose token, in which Secret) -> the token."""


def no_root_ca() -> str:
    """Somebody else tells pods whom to trust, or nobody does."""
    return ""


DEFAULT_SCHEDULER: Final = "default-scheduler"  # of pods that name none


@dataclass(frozen=True)
class Settings:
    """What an operator may choose. Seconds."""

    node_grace: float = 40.0  # how long nothing may be heard from a node before it counts as silent
    metrics_url: str = ""  # Prometheus for external metrics of places that name none of their own
    autoscaling_period: float = 15.0  # between two looks at a deployment's metrics
    scheduler_names: tuple[str, ...] = ("tarmac", DEFAULT_SCHEDULER)  # whose pods are given nodes here
    class_resources: bool = False  # the feature gate ClassResources: pods get nodes that offer their classes

    @property
    def schedules_the_cluster(self) -> bool:
        """Whether every pod that names no scheduler is ours. Beside another scheduler, nobody goes for our pods."""
        return DEFAULT_SCHEDULER in self.scheduler_names


@dataclass(frozen=True)
class Context:
    """A controller's way to the server, the shared caches, and the few things that only the composition root knows."""

    name: str  # whose context this is
    informers: Informers
    metrics: ClientMetrics
    book: Callable[[], AddressBook]  # the same for every controller of the process
    recorders: list[Recorder]  # all of the process: they have to run
    root_ca: RootCa = no_root_ca
    sign: Sign | None = None  # None: certificates are approved but not signed here
    sign_token: SignToken | None = None  # None: nothing is put into Secrets here
    settings: Settings = Settings()
    metrics_source: MetricsSource | None = None  # None: Prometheus and the server's own resource metrics
    running: frozenset[str] = frozenset()  # the controllers of this process, by name
    networked: bool = True  # pods are connected by our Networks; False beside an API server of others

    def acting_as(self, name: str) -> Context:
        """The context of another controller of the process."""
        return replace(self, name=name)

    @cached_property
    def client(self) -> Client:
        """The server, as this controller."""
        process = self.informers.client
        transport = ActingAs(process.transport, controller_user(self.name))
        return Client(transport, process.clock, process.randomness)

    @cached_property
    def recorder(self) -> Recorder:
        """For events that this controller tells of."""
        made = Recorder(self.client, PROCESS)
        self.recorders.append(made)
        return made

    @property
    def addresses(self) -> AddressBook:
        """Where every controller of this process gets addresses from."""
        return self.book()

    def controller(self, name: str, reconcile: Reconcile, workers: int = 4) -> Controller:
        """A controller on this context's clock, visible in its metrics."""
        made = Controller(name, reconcile, clock=self.client.clock, randomness=self.client.randomness, workers=workers)
        self.metrics.controllers.append(made)
        return made
