"""Stories against our own server, with the controllers in a process of their own.

`make test` runs three: the same stories run in process in virtual time. `make soak` runs all of them.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.soak import SOAK
from tests.stories.all import STORIES
from tests.stories.manifests import MACHINE
from tests.stories.outside import Scene, scene, tell
from tests.support.tarmac_process import TarmacProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Scene]:
    folder = tmp_path_factory.mktemp("stories")
    with TarmacProcess(folder / "data", "--controllers=") as process:
        controllers = process.data_dir / "controllers.kubeconfig"
        with scene(process.kubeconfig, controllers, folder) as found:
            yield found


@pytest.mark.parametrize("name", STORIES if SOAK else ("deletion", "node_lost", "rollout"))
@pytest.mark.soak(minutes=0.2)
def test_story(name: str, server: Scene) -> None:
    tell(STORIES[name], server)


def test_rollout_of_machines(server: Scene) -> None:
    tell(STORIES["rollout"], server, MACHINE)
