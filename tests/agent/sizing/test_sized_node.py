"""A real node with the sizes of its providers, which follows their changes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tarmac.base.quantity import Quantity
from tests.agent.sizing.programs import Programs, answer
from tests.agent.sizing.stage import GATE
from tests.support.agent_process import AgentProcess, until
from tests.support.containerd import ContainerdNode
from tests.support.exposition import series
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess
from tools.cache import ROOT

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]
NAME = "sized-0"


class Sized(NamedTuple):
    """A node, a client, and the file that its second provider prints."""

    kubectl: Kubectl
    agent: AgentProcess
    says: Path

    def status(self) -> dict[str, Any]:
        return json.loads(self.kubectl("get", "node", NAME, "-o", "json"))["status"]

    def held(self, resource: str) -> int:
        status = self.status()
        return (Quantity.parse(status["capacity"][resource]) - Quantity.parse(status["allocatable"][resource])).milli()

    def node_api(self, path: str) -> str:
        return self.kubectl("get", "--raw", f"/api/v1/nodes/{NAME}/proxy/{path}")

    def left_for_pods(self) -> int:
        """Return the difference between the machine and the cgroup of all pods."""
        root = f"{self.agent.cgroup_root}/kubepods"
        files = (f"/sys/fs/cgroup/memory{root}/memory.limit_in_bytes", f"/sys/fs/cgroup{root}/memory.max")
        limit = next(int(Path(file).read_text()) for file in files if Path(file).exists())
        return Quantity.parse(self.status()["capacity"]["memory"]).value() - limit

    def events(self, reason: str) -> list[dict[str, Any]]:
        found = json.loads(self.kubectl("get", "events", "-A", "-o", "json", f"--field-selector=reason={reason}"))
        return [event for event in found["items"] if event["involvedObject"]["name"] == NAME]


@pytest.fixture(scope="module")
def node(containerd_node: ContainerdNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sized]:
    folder = tmp_path_factory.mktemp("sized")
    programs = Programs(folder)
    shutil.copy(ROOT / "plugins" / "eks", programs.bin_dir / "eks")
    programs.name("eks", args=["--cpus=4", "--max-pods=8"])
    programs.shell("own", f"cat {folder}/says")
    (folder / "says").write_text(answer(systemReserve={"memory": "256Mi"}, kubeReserve={"memory": "1Mi"}))
    flags = (GATE, f"--sizing-provider-config={programs.config}", f"--sizing-provider-bin-dir={programs.bin_dir}")
    settings = {"sizingProviderPeriod": "10s", "systemReserved": {"memory": "1Mi"}, "evictionHard": {}}
    with TarmacProcess(folder / "data") as server:
        agent = AgentProcess.for_server(folder / NAME, NAME, containerd_node, server, *flags, **settings)
        with agent:
            yield Sized(Kubectl(server.kubeconfig, folder), agent, folder / "says")


def test_a_node_is_as_large_as_its_providers_say_and_follows_them(node: Sized) -> None:
    before = (343 + 256) << 20
    assert node.held("memory") == before * 1000
    assert node.left_for_pods() == before
    assert node.held("cpu") == 80
    shown = json.loads(node.node_api("configz"))["kubeletconfig"]
    assert shown["kubeReserved"] == {"cpu": "80m", "memory": "343Mi", "ephemeral-storage": "1Gi"}
    assert shown["systemReserved"] == {"memory": "256Mi"}
    log = node.agent.log.read_text()
    assert 'pool=systemReserved resource=memory amount=256Mi said_by="provider own"' in log
    assert 'amount=1Mi said_by=file by_amount=256Mi by="provider own"' in log
    metrics = node.node_api("metrics")
    assert series(metrics)
    assert 'kubelet_sizing_provider_plugin_errors_total{plugin_name="own"} 0' in metrics
    assert 'kubelet_sizing_provider_plugin_duration_seconds{plugin_name="eks"} ' in metrics
    assert 'kubelet_sizing_provider_config_info{hash="sha256:' in metrics

    node.says.write_text(answer(systemReserve={"memory": "512Mi", "cpu": "100m"}))
    until(lambda: node.held("memory") == ((343 + 512) << 20) * 1000, 60, 1.0)
    assert node.left_for_pods() == (343 + 512) << 20
    assert node.held("cpu") == 180
    assert json.loads(node.node_api("configz"))["kubeletconfig"]["systemReserved"] == {"memory": "512Mi", "cpu": "100m"}
    until(lambda: node.events("SizingChanged"), 20, 1.0)
    assert (
        "systemReserved memory from 256Mi (provider own) to 512Mi (provider own)"
        in (node.events("SizingChanged")[0]["message"])
    )

    node.says.write_text("nonsense")
    until(lambda: node.events("SizingProviderFailed"), 40, 1.0)
    failed = node.events("SizingProviderFailed")[0]
    assert (failed["type"], failed["message"]) == ("Warning", 'sizing provider "own": stdout is not one JSON object')
    assert node.held("cpu") == 180
    assert 'kubelet_sizing_provider_plugin_errors_total{plugin_name="own"} 0' not in node.node_api("metrics")


def test_providers_are_asked_again_while_no_runtime_answers(containerd_node: ContainerdNode, tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    programs.shell("own", f"cat {tmp_path}/says")
    (tmp_path / "says").write_text(answer(systemReserve={"memory": "256Mi"}))
    named = f"--sizing-provider-config={programs.config}", f"--sizing-provider-bin-dir={programs.bin_dir}"
    nothing_listens = f"--container-runtime-endpoint=unix://{tmp_path}/runtime.sock"
    with TarmacProcess(tmp_path / "data") as server, ExitStack() as stack:
        agent = AgentProcess.for_server(
            tmp_path / NAME, NAME, containerd_node, server, GATE, *named, nothing_listens, sizingProviderPeriod="10s"
        )
        stack.push(agent.launch())
        node = Sized(Kubectl(server.kubeconfig, tmp_path), agent, tmp_path / "says")
        until(lambda: agent.name in node.kubectl("get", "nodes", "-o", "name"), 30, 0.5)
        before = node.held("memory")
        node.says.write_text(answer(systemReserve={"memory": "512Mi"}))
        until(lambda: node.held("memory") == before + (256 << 20) * 1000, 40, 1.0)
