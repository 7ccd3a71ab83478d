"""One controller process: it leads or waits to lead, may crash, and can be started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tarmac.api.identities import NAMESPACE, PROCESS
from tarmac.base.tasks import Tasks
from tarmac.client.client import Client
from tarmac.client.leader import Elector
from tarmac.controllers.context import Settings
from tarmac.controllers.manager import ControllerManager
from tarmac.controllers.metricsources import MetricsSource
from tarmac.sim.faults.link import ServerLink

Connect = Callable[[int], tuple[ServerLink, Client]]
"""connect(number of the run) -> a new link, and a client over it."""


class Replica:
    """The process. `start` creates all its parts anew."""

    def __init__(self, name: str, connect: Connect, load: MetricsSource, controllers: str = "*") -> None:
        self.name = name
        self.link: ServerLink
        self._connect = connect
        self._load = load
        self._controllers = controllers
        self._runs = 0
        self._tasks = Tasks()  # including those of crashed runs, until they have ended
        self._task: asyncio.Task[None] | None = None
        self._elector: Elector

    @property
    def running(self) -> bool:
        """True if the process exists."""
        return self._task is not None

    @property
    def leading(self) -> bool:
        """True if the process believes that it leads."""
        return self._task is not None and self._elector.leading

    def start(self) -> None:
        """Start a run."""
        self._runs += 1
        self.link, client = self._connect(self._runs)
        self._elector = Elector(client, PROCESS, NAMESPACE, f"{self.name}-{self._runs}")
        manager = ControllerManager(
            client,
            self._controllers,
            root_ca=lambda: "simulated",
            elector=self._elector,
            metrics_source=self._load,
            settings=Settings(class_resources=True, way_in=True),
        )
        self._task = self._tasks.begin(manager.run(), f"{self.name}-{self._runs}")

    def crash(self) -> None:
        """Crash at once: nothing that its tasks do while being cancelled reaches the server."""
        if self._task is not None:
            self.link.sever()
            self._task.cancel()
            self._task = None
