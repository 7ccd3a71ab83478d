"""Stories in real time: a server in one process, controllers in another, nodes and somebody in this one."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tests.stories.telling import Story, play
from tests.stories.world import QUICK, World
from tests.support.controllers_process import running_controllers

SHORT = (
    "--node-monitor-grace-period=2s",
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=500ms",
)


@contextmanager
def scene(server: Path, controllers: Path, log: Path) -> Generator[Path]:
    """A server with controllers, from the kubeconfigs of an administrator and of the controllers."""
    with running_controllers(controllers, log, *SHORT):
        yield server
    trouble = [line for line in log.read_text().splitlines() if "reconcile failed" in line or "begins again" in line]
    assert not trouble, "the controllers stumbled:\n" + "\n".join(trouble[:5])


def tell(told: Story, kubeconfig: Path) -> None:
    """Play one story there."""
    asyncio.run(_tell(told, kubeconfig))


async def _tell(told: Story, kubeconfig: Path) -> None:
    http = load(str(kubeconfig)).http
    user, nodes = Client(HttpTransport(http)), Client(HttpTransport(http))
    try:
        await play(told, World(user, nodes, told.__name__.replace("_", "-"), QUICK))
    finally:
        await user.close()
        await nodes.close()
