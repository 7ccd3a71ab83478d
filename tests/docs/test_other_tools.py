"""The page about other tools: each kubectl command that it says fails for a Workload does, for the stated reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess
from tools.cache import ROOT

PAGE = ROOT / "docs" / "how-to" / "use-other-tools.md"
FAILING = re.findall(r"^\| `kubectl ([^`]+)` \|", PAGE.read_text(), re.MULTILINE)
WORKLOAD = """
apiVersion: compute.datumapis.com/v1alpha
kind: Workload
metadata: {name: app}
spec:
  template: {spec: {runtime: {sandbox: {containers: [{name: app, image: "registry.local/tarmac/web:1"}]}}}}
  placements: [{name: main, cityCodes: [DFW], scaleSettings: {minReplicas: 1}}]
"""


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """A server with a city and a Workload, without nodes."""
    folder = tmp_path_factory.mktemp("tools")
    flags = ("--runtime", "sim", "--cities", "DFW", "--sim-nodes", "1")
    with TarmacProcess(folder / "data", *flags, command="up") as planet:
        made = Kubectl(planet.kubeconfig, folder)
        made("create", "-f", "-", stdin=WORKLOAD)
        yield made


@pytest.mark.parametrize("command", FAILING)
def test_a_command_for_built_in_kinds_alone_refuses_a_workload(kubectl: Kubectl, command: str) -> None:
    done = kubectl.run(*command.replace("COMMAND", "hostname").split(), timeout=30)
    assert done.code != 0
    assert 'no kind "Workload" is registered' in done.err


def test_the_page_lists_the_commands() -> None:
    assert len(FAILING) == 11


def test_commands_for_all_kinds_take_a_workload(kubectl: Kubectl, tmp_path: Path) -> None:
    for words in (
        "get workload app", "describe workload app", "scale workload/app --replicas=2",
        "label workload app tier=web", "annotate workload app note=x", "explain workload.spec",
        "wait --for=condition=Ready workload/app --timeout=60s", "delete workload app",
    ):  # fmt: skip
        done = kubectl.run(*words.split(), timeout=90)
        assert done.code == 0, done
