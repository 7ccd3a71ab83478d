"""kube-controller-manager beside a server: no controller runs twice, and Deployments and Jobs work through kills."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tarmac.apps.stockcontrollers.running import (
    NOT_OFFERED,
    OWN,
    RUN,
    controllers_flag,
    find_stock_controllers,
    left_running,
)
from tarmac.controllers.manager import CONTROLLERS
from tarmac.runtimes.parts import PartMissing
from tests.support.kubectl import kubectl_path
from tests.support.tarmac_process import TarmacProcess

IMAGE = "registry.local/tarmac/web:1"


def test_a_controller_of_tarmac_never_runs_there() -> None:
    assert not RUN & OWN.keys()
    assert not RUN & NOT_OFFERED
    assert set(OWN.values()) <= set(CONTROLLERS)
    assert controllers_flag().split(",") == sorted(RUN)


@pytest.mark.peers
def test_the_table_has_every_controller_of_the_program() -> None:
    shown = subprocess.run([find_stock_controllers(), "--help"], capture_output=True, text=True, check=True).stdout
    listed = re.search(r"All controllers: ([\w, -]+)\n", shown)
    assert listed is not None
    assert set(listed.group(1).split(", ")) == RUN | OWN.keys() | NOT_OFFERED


def test_a_missing_program_is_named_with_the_command_that_builds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TARMAC_NODE_PARTS", str(tmp_path))
    with pytest.raises(PartMissing, match="make kubernetes-controllers"):
        find_stock_controllers()


@pytest.fixture(scope="module")
def planet(tmp_path_factory: pytest.TempPathFactory) -> Generator[TarmacProcess]:
    """Three simulated cities with the controllers."""
    folder = tmp_path_factory.mktemp("stock")
    flags = ("--runtime=sim", "--sim-nodes=1", "--with-kubernetes-controllers")
    with _removed(folder / "data"), TarmacProcess(folder / "data", *flags, command="up") as planet:
        yield planet
        assert planet.stop(timeout=40) == 0
        assert left_running(folder / "data") == []


@contextmanager
def _removed(data_dir: Path) -> Generator[None]:
    """End controllers that a failed test leaves."""
    try:
        yield
    finally:
        for pid in left_running(data_dir):
            os.kill(pid, signal.SIGKILL)


def _kubectl(planet: TarmacProcess, *words: str, body: str | None = None) -> str:
    command = [kubectl_path(), f"--kubeconfig={planet.kubeconfig}", *words]
    done = subprocess.run(command, capture_output=True, text=True, input=body, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def _eventually(planet: TarmacProcess, kind: str, path: str, value: str) -> None:
    _kubectl(planet, "wait", kind, f"--for=jsonpath={path}={value}", "--timeout=60s")


@pytest.mark.peers
@pytest.mark.timeout(240)
def test_a_deployment_is_rolled_out_scaled_and_undone(planet: TarmacProcess) -> None:
    made = _kubectl(planet, "create", "deployment", "web", f"--image={IMAGE}", "--replicas=2")
    assert "created" in made
    _kubectl(planet, "rollout", "status", "deployment/web", "--timeout=60s")
    _kubectl(planet, "set", "image", "deployment/web", "web=registry.local/tarmac/web:2")
    _kubectl(planet, "rollout", "status", "deployment/web", "--timeout=60s")
    _kubectl(planet, "rollout", "undo", "deployment/web")
    _kubectl(planet, "rollout", "status", "deployment/web", "--timeout=60s")
    assert IMAGE in _kubectl(planet, "get", "deployment/web", "-o", "wide")
    _kubectl(planet, "scale", "deployment/web", "--replicas=4")
    _eventually(planet, "deployment/web", "{.status.readyReplicas}", "4")
    _kubectl(planet, "delete", "deployment/web")
    _kubectl(planet, "wait", "pods", "-l", "app=web", "--for=delete", "--timeout=60s")


@pytest.mark.peers
@pytest.mark.timeout(240)
def test_stateful_sets_daemon_sets_and_jobs_get_their_pods(planet: TarmacProcess) -> None:
    pod = f"{{containers: [{{name: c, image: '{IMAGE}'}}]}}"
    both = "".join(
        f"apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: {kind.lower()}}}\nspec:\n"
        f"  selector: {{matchLabels: {{app: {kind.lower()}}}}}\n{more}"
        f"  template: {{metadata: {{labels: {{app: {kind.lower()}}}}}, spec: {pod}}}\n---\n"
        for kind, more in (("StatefulSet", "  serviceName: s\n  replicas: 2\n"), ("DaemonSet", ""))
    )
    _kubectl(planet, "apply", "-f", "-", body=both)
    _kubectl(planet, "create", "job", "once", f"--image={IMAGE}")
    _eventually(planet, "statefulset/statefulset", "{.status.readyReplicas}", "2")
    _eventually(planet, "daemonset/daemonset", "{.status.numberReady}", "3")
    _eventually(planet, "job/once", "{.status.active}", "1")
    assert "statefulset-1" in _kubectl(planet, "get", "pods")
    _kubectl(planet, "delete", "statefulset/statefulset", "daemonset/daemonset", "job/once", "--wait")


@pytest.mark.peers
@pytest.mark.timeout(240)
def test_killed_controllers_come_back_and_go_on(planet: TarmacProcess) -> None:
    (before,) = left_running(planet.data_dir)
    os.kill(before, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while not (now := left_running(planet.data_dir)) or now == [before]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    _kubectl(planet, "create", "deployment", "again", f"--image={IMAGE}")
    _kubectl(planet, "rollout", "status", "deployment/again", "--timeout=90s")  # the killed leader's Lease ends first
    _kubectl(planet, "delete", "deployment/again")


@pytest.mark.peers
@pytest.mark.timeout(240)
def test_a_killed_up_leaves_controllers_that_the_next_one_replaces(tmp_path: Path) -> None:
    flags = ("--runtime=sim", "--sim-nodes=1", "--with-kubernetes-controllers")
    with _removed(tmp_path / "data"), TarmacProcess(tmp_path / "data", *flags, command="up") as planet:
        _wait_for_one(planet)
        planet.kill()
        (orphan,) = left_running(planet.data_dir)
        planet.start()
        _wait_for_one(planet)
        assert orphan not in left_running(planet.data_dir)
        assert planet.stop(timeout=40) == 0
        assert left_running(planet.data_dir) == []


def _wait_for_one(planet: TarmacProcess) -> None:
    deadline = time.monotonic() + 30
    while len(left_running(planet.data_dir)) != 1:
        assert time.monotonic() < deadline
        time.sleep(0.1)
