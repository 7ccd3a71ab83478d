"""Stories in real time: a server, controllers and a Prometheus in processes of their own, nodes and users here."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tests.stories.manifests import SANDBOX, Sort
from tests.stories.telling import Story, play
from tests.stories.world import QUICK, World
from tests.support.controllers_process import running_controllers
from tests.support.prometheus import running_prometheus

SHORT = (
    "--controllers=*",  # no other controllers run, so these manage the whole cluster
    "--scheduler-names=tarmac,default-scheduler",
    "--autoscaler-sync-period=500ms",
    "--node-monitor-grace-period=2s",
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=500ms",
)


@dataclass(frozen=True)
class Scene:
    """A running setting for stories."""

    kubeconfig: Path
    load: dict[str, float]


@contextmanager
def scene(server: Path, controllers: Path, folder: Path) -> Generator[Scene]:
    """Yield a server with controllers, from the kubeconfigs of an administrator and of the controllers."""
    log = folder / "controllers.log"
    load: dict[str, float] = {}

    def exposed() -> str:
        return "".join(f'requests_per_second{{city="{city}"}} {value}\n' for city, value in load.items())

    with (
        running_prometheus(folder, exposed) as metrics,
        running_controllers(controllers, log, f"--metrics-url={metrics}", *SHORT),
    ):
        yield Scene(server, load)
    trouble = [line for line in log.read_text().splitlines() if "reconcile failed" in line or "begins again" in line]
    assert not trouble, "the controllers stumbled:\n" + "\n".join(trouble[:5])


def tell(told: Story, scene: Scene, sort: Sort = SANDBOX) -> None:
    """Run one story there."""
    asyncio.run(_tell(told, scene, sort))


async def _tell(told: Story, scene: Scene, sort: Sort) -> None:
    http = load(str(scene.kubeconfig)).http
    user, nodes = Client(HttpTransport(http)), Client(HttpTransport(http))
    try:
        namespace = f"{told.__name__.replace('_', '-')}-{sort.name}"
        await play(told, World(user, nodes, namespace, QUICK, scene.load, sort))
    finally:
        await user.close()
        await nodes.close()
