"""Every story against a real kube-apiserver with Tarmac's kinds and roles. No other controllers run there.

The controllers use the service account that `tarmac crds --rbac` creates for them, with its token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tests.stories.all import STORIES
from tests.stories.manifests import MACHINE
from tests.stories.outside import Scene, scene, tell
from tests.support.peer import Peer, running_peer
from tests.support.roles import install_kinds, install_roles, kubeconfig, token

pytestmark = pytest.mark.peers


async def _install(peer: Peer, controllers: Path) -> None:
    """Install kinds and roles, and write the controllers' kubeconfig."""
    client = Client(HttpTransport(load(str(peer.kubeconfig)).http))
    try:
        await install_kinds(client)
        await install_roles(client)
        controllers.write_text(kubeconfig(peer, await token(client)))
    finally:
        await client.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Scene]:
    """A server of their own: Locations of other suites would be candidates."""
    with running_peer() as peer:
        folder = tmp_path_factory.mktemp("stories")
        controllers = folder / "controllers.kubeconfig"
        asyncio.run(_install(peer, controllers))
        with scene(peer.kubeconfig, controllers, folder) as found:
            yield found


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str, server: Scene) -> None:
    tell(STORIES[name], server)


def test_rollout_of_machines(server: Scene) -> None:
    tell(STORIES["rollout"], server, MACHINE)
