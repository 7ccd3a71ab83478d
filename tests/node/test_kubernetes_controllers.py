"""Stock controllers run Deployments, StatefulSets, DaemonSets, Jobs and autoscalers on real nodes, through kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.kubernetesstory import Story
from tests.apps.test_stock_controllers import removed
from tests.node.planet import down
from tests.support.gobuilt import needs
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.root, pytest.mark.peers, pytest.mark.timeout(600), needs()]
_FLAGS = ("--runtime", "containerd", "--with-kubernetes-controllers", "--cities")


def test_every_kind_works_on_real_nodes_through_kills_of_controllers_and_server(tmp_path: Path) -> None:
    data = tmp_path / "data"
    try:
        with removed(data), TarmacProcess(data, *_FLAGS, "DFW", command="up") as planet:
            Story(planet, tmp_path).tell((*_FLAGS, "DFW,LHR"))
            assert planet.stop(timeout=60) == 0
    finally:
        done = down(data)
    assert done.returncode == 0, done.stderr
