"""Every story reads as it did: kubectl and Tarmac's own verbs on simulated cities, with an explanation at each stop."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.kubectl import kubectl_path
from tests.support.tarmac_process import TarmacProcess
from tests.transcripts.planet import STORIES, running_planet
from tests.transcripts.test_kubectl_sessions import check


@pytest.fixture(scope="module")
def planet(tmp_path_factory: pytest.TempPathFactory) -> Generator[TarmacProcess]:
    with running_planet(tmp_path_factory.mktemp("planet")) as process:
        yield process


# They live by the real clock: nodes are lost after so many seconds, whoever else needs the machine.
@pytest.mark.serial
@pytest.mark.lab
@pytest.mark.timeout(400)
@pytest.mark.parametrize("path", sorted(STORIES.glob("*.txt")), ids=lambda path: path.stem)
def test_story(path: Path, planet: TarmacProcess, tmp_path: Path) -> None:
    check(path, kubectl_path(), planet.kubeconfig, tmp_path)
