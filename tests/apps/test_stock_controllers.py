"""kube-controller-manager beside a server: no controller runs twice, and Deployments and Jobs work through kills."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tarmac.apps.kubernetescontrollers import choose
from tarmac.apps.main import main
from tarmac.apps.stockcontrollers.supervisor import (
    NOT_OFFERED,
    OWN,
    RUN,
    controller_arguments,
    find_stock_controllers,
    left_running,
)
from tarmac.controllers.manager import CONTROLLERS
from tarmac.runtimes.parts import PartMissing
from tarmac.server.security.authorization.stockcontrollers import STOCK_ROLES
from tests.apps.kubernetesstory import Story
from tests.support.gobuilt import needs
from tests.support.kubectl import kubectl_path
from tests.support.peer import Peer
from tests.support.tarmac_process import TarmacProcess

IMAGE = "registry.local/tarmac/web:1"


def test_a_controller_of_tarmac_never_runs_there() -> None:
    assert not RUN & OWN.keys()
    assert not RUN & NOT_OFFERED
    assert set(OWN.values()) <= set(CONTROLLERS)
    assert f"--controllers={','.join(sorted(RUN))}" in controller_arguments(Path("x"), RUN)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("garbage-collector-controller", "Tarmac's own controller garbage does its work"),
        ("ttl-controller", "its kind is not served"),
        ("moon-controller", "there is none of this name"),
    ],
)
def test_a_controller_that_may_not_run_there_is_refused_at_start(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kubernetes-controllers", f"--controllers=job-controller,{name}"]) == 2
    printed = capsys.readouterr().err
    assert f"--controllers: {name}" in printed
    assert said in printed
    assert "choose from cronjob-controller" in printed


def test_chosen_controllers_run_alone() -> None:
    assert choose(("job-controller",)) == {"job-controller"}
    assert choose(()) == RUN


@pytest.mark.peers
def test_a_server_that_is_not_tarmacs_is_refused(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kubernetes-controllers", f"--kubeconfig={peer.kubeconfig}"]) == 2
    assert "is not Tarmac's server" in capsys.readouterr().err


@pytest.mark.peers
def test_the_table_has_every_controller_of_the_program() -> None:
    shown = subprocess.run([find_stock_controllers(), "--help"], capture_output=True, text=True, check=True).stdout
    listed = re.search(r"All controllers: ([\w, -]+)\n", shown)
    assert listed is not None
    assert set(listed.group(1).split(", ")) == RUN | OWN.keys() | NOT_OFFERED


# rights of Kubernetes' roles that no controller of version 1.35 uses
_LEFT_OUT = {
    "deployment-controller": {"/pods update", "apps/deployments update", "extensions/deployments update"},
    "replicaset-controller": {"apps/replicasets update", "extensions/replicasets update"},
    "statefulset-controller": {"/persistentvolumeclaims delete"},
    "daemon-set-controller": {"/pods/binding create"},
    "job-controller": {"batch/jobs update"},
    "cronjob-controller": {
        "/pods delete", "/pods list", "/pods watch", "batch/cronjobs update", "batch/jobs patch", "batch/jobs update",
    },
    "replication-controller": {"/replicationcontrollers update"},
}  # fmt: skip


def _rights(rules: Iterable[dict[str, Any]]) -> set[str]:
    found: set[str] = set()
    for each in rules:
        groups, resources, verbs = (each.get(part) or () for part in ("apiGroups", "resources", "verbs"))
        found |= {f"{group}/{resource} {verb}" for group, resource, verb in product(groups, resources, verbs)}
    return found


@pytest.mark.peers
def test_roles_of_the_controllers_have_no_right_that_those_of_kubernetes_lack(peer: Peer) -> None:
    prefix = "system:controller:"
    command = [kubectl_path(), f"--kubeconfig={peer.kubeconfig}", "get", "clusterroles", "-o", "json"]
    found = json.loads(subprocess.run(command, capture_output=True, timeout=60, check=True).stdout)["items"]
    theirs = {each["metadata"]["name"].removeprefix(prefix): _rights(each["rules"] or ()) for each in found}
    ours = {name.removeprefix(prefix): _rights(rules) for name, rules in STOCK_ROLES.items() if prefix in name}
    assert len(ours) == 9
    assert {name: rights - theirs[name] for name, rights in ours.items() if rights - theirs[name]} == {}
    assert {name: theirs[name] - rights for name, rights in ours.items() if theirs[name] - rights} == _LEFT_OUT


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
    with removed(folder / "data"), TarmacProcess(folder / "data", *flags, command="up") as planet:
        yield planet
        assert planet.stop(timeout=40) == 0
        assert left_running(folder / "data") == []


@contextmanager
def removed(data_dir: Path) -> Generator[None]:
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
def test_stateful_sets_and_daemon_sets_get_their_pods(planet: TarmacProcess) -> None:
    pod = f"{{containers: [{{name: c, image: '{IMAGE}'}}]}}"
    both = "".join(
        f"apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: {kind.lower()}}}\nspec:\n"
        f"  selector: {{matchLabels: {{app: {kind.lower()}}}}}\n{more}"
        f"  template: {{metadata: {{labels: {{app: {kind.lower()}}}}}, spec: {pod}}}\n---\n"
        for kind, more in (("StatefulSet", "  serviceName: s\n  replicas: 2\n"), ("DaemonSet", ""))
    )
    _kubectl(planet, "apply", "-f", "-", body=both)
    _eventually(planet, "statefulset/statefulset", "{.status.readyReplicas}", "2")
    _eventually(planet, "daemonset/daemonset", "{.status.numberReady}", "3")
    assert "statefulset-1" in _kubectl(planet, "get", "pods")
    _kubectl(planet, "delete", "statefulset/statefulset", "daemonset/daemonset", "--wait")


@pytest.mark.peers
@pytest.mark.timeout(240)
def test_a_stateful_set_gets_a_disk_for_each_pod_and_keeps_them_when_it_is_scaled_down(planet: TarmacProcess) -> None:
    claim = "{storageClassName: tarmac-local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
    pod = f"{{containers: [{{name: c, image: '{IMAGE}', volumeMounts: [{{name: d, mountPath: /d}}]}}]}}"
    db = (
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec:\n  serviceName: db\n  replicas: 2\n"
        f"  selector: {{matchLabels: {{app: db}}}}\n  template: {{metadata: {{labels: {{app: db}}}}, spec: {pod}}}\n"
        f"  volumeClaimTemplates: [{{metadata: {{name: d}}, spec: {claim}}}]\n"
    )
    _kubectl(planet, "apply", "-f", "-", body=db)
    _eventually(planet, "statefulset/db", "{.status.readyReplicas}", "2")
    _eventually(planet, "pvc/d-db-1", "{.status.phase}", "Bound")
    _kubectl(planet, "scale", "statefulset/db", "--replicas=1")
    _kubectl(planet, "wait", "pod/db-1", "--for=delete", "--timeout=60s")
    _eventually(planet, "pvc/d-db-1", "{.status.phase}", "Bound")
    _kubectl(planet, "delete", "statefulset/db", "pvc/d-db-0", "pvc/d-db-1", "--wait=false")


@pytest.mark.peers
@pytest.mark.timeout(240)
def test_an_autoscaler_reads_the_metrics_of_pods(planet: TarmacProcess) -> None:
    _kubectl(planet, "create", "deployment", "busy", f"--image={IMAGE}", "--replicas=2")
    _kubectl(planet, "set", "resources", "deployment/busy", "--requests=cpu=100m")  # of which a simulated pod uses 10 %
    _kubectl(planet, "autoscale", "deployment", "busy", "--min=2", "--max=4", "--cpu-percent=5")
    _eventually(planet, "deployment/busy", "{.spec.replicas}", "4")
    _eventually(planet, "deployment/busy", "{.status.readyReplicas}", "4")
    _kubectl(planet, "delete", "hpa/busy", "deployment/busy")


@pytest.mark.peers
@pytest.mark.timeout(240)
def test_a_cron_job_starts_jobs_and_a_suspended_one_does_not(planet: TarmacProcess) -> None:
    _kubectl(planet, "create", "cronjob", "tick", f"--image={IMAGE}", "--schedule=* * * * *")
    _kubectl(planet, "create", "cronjob", "still", f"--image={IMAGE}", "--schedule=* * * * *")
    _kubectl(planet, "patch", "cronjob/still", "-p", '{"spec": {"suspend": true}}')
    _kubectl(planet, "wait", "cronjob/tick", "--for=jsonpath={.status.lastScheduleTime}", "--timeout=85s")
    jobs = _kubectl(planet, "get", "jobs")
    assert "tick-" in jobs
    assert "still-" not in jobs
    _kubectl(planet, "delete", "cronjob/tick", "cronjob/still")


@pytest.mark.peers
@pytest.mark.timeout(240)
def test_a_daemon_set_reaches_a_node_that_joins_after_the_server_was_killed(tmp_path: Path) -> None:
    first = ("--runtime=sim", "--sim-nodes=1", "--cities=DFW", "--with-kubernetes-controllers")
    with removed(tmp_path / "data"), TarmacProcess(tmp_path / "data", *first, command="up") as planet:
        pod = f"{{containers: [{{name: c, image: '{IMAGE}'}}]}}"
        _kubectl(
            planet, "apply", "-f", "-",
            body="apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\nspec:\n"
            "  selector: {matchLabels: {app: d}}\n"
            f"  template: {{metadata: {{labels: {{app: d}}}}, spec: {pod}}}\n",
        )  # fmt: skip
        _eventually(planet, "daemonset/d", "{.status.numberReady}", "1")
        planet.kill()
        planet.flags = tuple(flag.replace("--sim-nodes=1", "--sim-nodes=2") for flag in first)
        planet.start()
        _eventually(planet, "daemonset/d", "{.status.numberReady}", "2")
        assert planet.stop(timeout=40) == 0


@needs()
@pytest.mark.peers
@pytest.mark.timeout(600)
def test_every_kind_works_through_kills_of_controllers_and_server(tmp_path: Path) -> None:
    flags = ("--runtime=sim", "--with-kubernetes-controllers", "--cities=DFW")
    data = tmp_path / "data"
    with removed(data), TarmacProcess(data, *flags, "--sim-nodes=1", command="up") as planet:
        Story(planet, tmp_path).tell((*flags, "--sim-nodes=2"))
        assert planet.stop(timeout=40) == 0


@pytest.mark.peers
@pytest.mark.timeout(240)
def test_controllers_beside_no_server_of_their_own_run_its_deployments(tmp_path: Path) -> None:
    flags = ("--runtime=sim", "--sim-nodes=1", "--cities=DFW")
    with TarmacProcess(tmp_path / "data", *flags, command="up") as planet:
        assert "Warning: no controller runs deployments here" in _kubectl(
            planet, "create", "deployment", "web", f"--image={IMAGE}"
        )
        assert "NoControllerRuns" in _tarmac(planet, "why", "deployment/web")
        command = [sys.executable, "-m", "tarmac.apps.main", "kubernetes-controllers"]
        with (tmp_path / "kcm.log").open("ab") as log:
            controllers = subprocess.Popen([*command, f"--kubeconfig={planet.kubeconfig}"], stdout=log, stderr=log)
        try:
            _kubectl(planet, "rollout", "status", "deployment/web", "--timeout=60s")
            assert "Kubernetes:    led by" in _tarmac(planet, "status")
            assert "has 1 of 1 pods ready" in _tarmac(planet, "why", "deployment/web")
        finally:
            controllers.terminate()
            controllers.wait(30)


def _tarmac(planet: TarmacProcess, *words: str) -> str:
    command = [sys.executable, "-m", "tarmac.apps.main", *words, f"--kubeconfig={planet.kubeconfig}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False).stdout


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
    with removed(tmp_path / "data"), TarmacProcess(tmp_path / "data", *flags, command="up") as planet:
        _wait_for_one(planet)
        # The program ends by itself if it loses its server before it has built its controllers.
        _kubectl(planet, "create", "deployment", "first", f"--image={IMAGE}")
        _kubectl(planet, "rollout", "status", "deployment/first", "--timeout=90s")
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
