"""What every controller is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from tarmac.client.client import Client
from tarmac.client.controller import Controller, Reconcile
from tarmac.client.events import Recorder
from tarmac.client.informer import Informers
from tarmac.client.metrics import ClientMetrics
from tarmac.controllers.addressbook import AddressBook
from tarmac.controllers.autoscaler.sources import MetricsSource

Sign = Callable[[str, list[str], int | None], str]
"""sign(request PEM, usages, expiration in seconds or None) -> certificate PEM.

Raises ValueError for a request it cannot sign.
"""


@dataclass(frozen=True)
class Settings:
    """What an operator may choose. Seconds."""

    node_grace: float = 40.0  # how long nothing may be heard from a node before it counts as silent
    metrics_url: str = ""  # Prometheus for external metrics of places that name none of their own
    autoscaling_period: float = 15.0  # between two looks at a deployment's metrics
    scheduler_names: tuple[str, ...] = ("tarmac", "default-scheduler")  # whose pods are given nodes here


@dataclass(frozen=True)
class Context:
    """The way to the server, the shared caches, and the few things that only the composition root knows."""

    client: Client
    informers: Informers
    recorder: Recorder
    metrics: ClientMetrics
    root_ca: str = ""  # PEM of the authority that signs the server's certificate
    sign: Sign | None = None  # None: certificates are approved but not signed here
    settings: Settings = Settings()
    metrics_source: MetricsSource | None = None  # None: Prometheus and the server's own resource metrics
    running: frozenset[str] = frozenset()  # the controllers of this process, by name

    @cached_property
    def addresses(self) -> AddressBook:
        """Where every controller of this process gets addresses from."""
        return AddressBook(self.informers)

    def controller(self, name: str, reconcile: Reconcile, workers: int = 4) -> Controller:
        """A controller on this context's clock, visible in its metrics."""
        made = Controller(name, reconcile, clock=self.client.clock, randomness=self.client.randomness, workers=workers)
        self.metrics.controllers.append(made)
        return made
