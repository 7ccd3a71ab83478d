"""Data of earlier versions is opened, served and adopted.

Each archive is named after the day of the commit that wrote it, and holds the files that a `tarmac up` with two cities
left when it was killed: store, keys, and the state of the agent in DFW. In it a Workload `web` of namespace `shop` has
rolled out a second template and runs in both cities.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tarmac.agent.containers.paths import PodPaths
from tarmac.agent.pods.checkpoints import PodCheckpoints
from tarmac.base.clock import SystemClock
from tests.apps.test_backups import tarmac
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.xz"))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A data directory as that version left it."""
    folder = tmp_path / "data"
    with tarfile.open(request.param) as archive:
        archive.extractall(folder)
    folder.chmod(0o700)
    return folder


def test_everything_that_was_stored_is_served_and_new_writes_stay(data: Path, tmp_path: Path) -> None:
    server = TarmacProcess(data, "--controllers=namespace")
    with server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        assert kubectl("-n", "shop", "get", "configmap", "settings", "-o", "jsonpath={.data.colour}") == "blue"
        assert kubectl("-n", "shop", "get", "secret", "password", "-o", "jsonpath={.data.word}") == "Zml4dHVyZQ=="
        workload = json.loads(kubectl("-n", "shop", "get", "workload", "web", "-o", "json"))
        assert workload["status"]["readyReplicas"] == 2
        pods = json.loads(kubectl("-n", "shop", "get", "pods", "-o", "json"))["items"]
        assert {pod["spec"]["nodeName"] for pod in pods} == {"dfw-0", "lhr-0"}
        kubectl("-n", "shop", "patch", "configmap", "settings", "-p", '{"data":{"colour":"red"}}')
        server.kill()
    with server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        assert kubectl("-n", "shop", "get", "configmap", "settings", "-o", "jsonpath={.data.colour}") == "red"


def test_a_backup_of_it_is_restored_by_this_version(data: Path, tmp_path: Path) -> None:
    """The store is raised to this version's format at its first start; a backup is of that format."""
    file, server = tmp_path / "backup", TarmacProcess(data, "--controllers=namespace")
    early = tarmac("backup", "create", str(file), "--without-keys", f"--data-dir={data}")
    assert (early.returncode, file.exists()) == (1, False), "without checksums the backup cannot be verified"
    assert "start its server once, which raises it to" in early.stderr
    with server:
        assert "store upgraded from format 1 to " in server.log.read_text()
        made = tarmac("backup", "create", str(file), "--without-keys", f"--data-dir={data}")
        assert made.returncode == 0, made.stderr
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        before = _running(kubectl)
        kubectl("-n", "shop", "patch", "configmap", "settings", "-p", '{"data":{"colour":"red"}}')
        server.stop()
    restored = tarmac("restore", str(file), f"--data-dir={data}", "--accept-loss")
    assert restored.returncode == 0, restored.stderr
    with server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        assert kubectl("-n", "shop", "get", "configmap", "settings", "-o", "jsonpath={.data.colour}") == "blue"
        assert kubectl("-n", "shop", "get", "secret", "password", "-o", "jsonpath={.data.word}") == "Zml4dHVyZQ=="
        assert _running(kubectl) == before


def test_nothing_that_runs_is_replaced(data: Path, tmp_path: Path) -> None:
    with TarmacProcess(data, "--controllers=namespace") as server:
        before = _running(Kubectl(server.kubeconfig, tmp_path))
        server.stop()
    with TarmacProcess(data, "--node-monitor-grace-period", "1h") as server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        # a condition that the archive does not have: controllers of this version have processed the Workload
        kubectl("-n", "shop", "wait", "--for=condition=Ready", "workload/web", "--timeout=20s")
        assert _running(kubectl) == before


def test_pods_of_a_node_are_known_to_the_next_agent(data: Path) -> None:
    kept = list(PodCheckpoints(PodPaths(data / "agent", data / "logs"), SystemClock()).read())
    assert [(pod.key, pod.raw["spec"]["nodeName"]) for pod, _ in kept] == [("shop/web-dfw-f89b3c1c-0", "dfw-0")]


def _running(kubectl: Kubectl) -> set[tuple[str, str]]:
    found = json.loads(kubectl("-n", "shop", "get", "pods,instances", "-o", "json"))["items"]
    return {(item["kind"], item["metadata"]["uid"]) for item in found}
