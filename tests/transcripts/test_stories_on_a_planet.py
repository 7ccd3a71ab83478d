"""Every story keeps its output: kubectl and Tarmac's verbs on simulated cities, with an explanation at each step."""

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


_BY_THE_REAL_CLOCK = {"autoscale", "city-lost", "drain", "node-lost", "stuck-rollout", "waves-crash", "waves-newer"}
"""Stories that wait for timeouts of minutes. The same stories run in virtual time in tests/stories."""


def _case(path: Path) -> object:
    marks = [pytest.mark.soak(minutes=1, only=True)] if path.stem in _BY_THE_REAL_CLOCK else []
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("path", [_case(path) for path in sorted(STORIES.glob("*.txt"))])
def test_story(path: Path, planet: TarmacProcess, tmp_path: Path) -> None:
    check(path, kubectl_path(), planet.kubeconfig, tmp_path)
