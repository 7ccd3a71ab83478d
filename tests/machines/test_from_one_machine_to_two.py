"""Machines that share nothing but a wire: init on one, join from another, a workload there, and leave.

Machines are namespaces with folders of their own; containerd, runc and the datapath are the real ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machines.boxes import Box, Started, boxes, until
from tests.soak import SOAK
from tests.support.containerd import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.soak(minutes=2), pytest.mark.timeout(600 if SOAK else 180)]

JOIN = ("checks", "configuration", "certificate", "containerd", "agent", "ready")
LEAVE = ("server", "processes", "node", "containerd", "files")
INIT = ("checks", "configuration", "keys", "server", "location")
"""`init` with a Location continues with the steps of `join`."""
# Every step three times in a soak; otherwise, once each of those that leave most behind.
TIMES = 3 if SOAK else 1
JOIN_KILLS = JOIN if SOAK else ("certificate", "ready")
LEAVE_KILLS = LEAVE if SOAK else ("processes", "containerd")
INIT_KILLS = [(*INIT, *JOIN)[: count + 1] for count in (range(len(INIT + JOIN)) if SOAK else (3, 7))]
"""Each entry ends with the step at which it is killed: two of `join` have the names of two of `init`."""
FORCED_KILLS = JOIN[1:] if SOAK else ("agent",)
LOCATION = {
    "apiVersion": "networking.datumapis.com/v1alpha",
    "kind": "Location",
    "metadata": {"name": "lhr"},
    "spec": {
        "locationClassName": "self-managed",
        "topology": {"topology.datum.net/city-code": "LHR"},
        "provider": {"nodes": {}},
    },
}


class Cluster:
    """A server on the first machine, and another machine that may join."""

    def __init__(self, server: Box, other: Box) -> None:
        self.server, self.other = server, other
        started = server.start("init", "--foreground", "--listen", "198.18.0.1:6443")
        started.until_said("join another machine")
        server.kubectl("create", "-f", "-", stdin=json.dumps(LOCATION))
        self.init = started

    def token(self, *flags: str) -> str:
        made = self.server.run(
            "token", "create", "--location", "lhr", "--kubeconfig", "/var/lib/tarmac/kubeconfig", *flags
        )
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def join(self, token: str, *flags: str) -> Started:
        return self.other.start("join", "198.18.0.1", "--token", token, "--foreground", *flags)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with boxes(tmp_path_factory.mktemp("machines"), "alpha", "beta") as (server, other):
        yield Cluster(server, other)


def pod(name: str) -> str:
    container = {"name": "main", "image": BUSYBOX, "command": ["sleep", "3600"], "imagePullPolicy": "IfNotPresent"}
    spec = {
        "runtimeClassName": "runc",
        "nodeSelector": {"topology.datum.net/location": "lhr"},
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def nothing(box: Box) -> bool:
    return not any(box.leftovers().values())


def test_a_machine_joins_runs_what_is_meant_for_its_city_and_leaves_nothing(cluster: Cluster) -> None:
    server, other = cluster.server, cluster.other
    token = cluster.token()
    joined = cluster.join(token)
    joined.until_said("joined as beta")
    labels = json.loads(server.kubectl("get", "node", "beta", "-o", "json"))["metadata"]["labels"]
    assert labels["topology.datum.net/location"] == "lhr"
    assert not other.path("/var/lib/tarmac/agent/bootstrap.kubeconfig").exists(), "the token is nowhere on disk"
    assert token.split(".")[2] not in other.path("/etc/tarmac/config.yaml").read_text()
    server.kubectl("create", "-f", "-", stdin=pod("web"))
    until(lambda: "Running" in server.kubectl("get", "pod", "web"), 30)
    kubeconfig = other.path("/var/lib/tarmac/agent/kubeconfig").read_text()
    pair = next(other.path("/var/lib/tarmac/agent/pki").glob("kubelet-client-2*.pem")).read_text()
    stolen = server.path("/run/stolen")
    stolen.mkdir()
    (stolen / "pair.pem").write_text(pair)
    path = "/var/lib/tarmac/agent/pki/kubelet-client-current.pem"
    (stolen / "kubeconfig").write_text(kubeconfig.replace(path, "/run/stolen/pair.pem"))
    thief = ("--kubeconfig=/run/stolen/kubeconfig", "get", "node", "beta")
    assert "Ready" in server.kubectl(*thief)
    left = other.run("leave")
    assert (left.returncode, left.stdout) == (0, "left\n"), left.stderr
    assert nothing(other), other.leftovers()
    assert "NotFound" in server.kubectl("get", "node", "beta")
    assert "was revoked" in server.kubectl(*thief), "a copy of its certificate opens nothing"
    other.prepare()
    again = cluster.join(token)
    assert again.process.wait(30) == 1
    assert "TokenUsedUp" in again.said
    assert not other.path("/var/lib/tarmac/agent/bootstrap.kubeconfig").exists()
    server.kubectl("delete", "pod", "web", "--force", "--grace-period=0")


def test_killed_at_every_step_the_same_command_goes_on(cluster: Cluster) -> None:
    other = cluster.other
    for _ in range(TIMES):
        other.prepare()
        token = cluster.token()
        for step in JOIN_KILLS:
            joining = cluster.join(token)
            joining.until_said(f"tarmac: {step}\n")
            joining.kill()
        cluster.join(token).until_said("joined as beta")
        for step in LEAVE_KILLS:
            leaving = other.start("leave", "--drain-timeout", "20s")
            leaving.until_said(f"tarmac: {step}\n")
            leaving.kill()
        done = other.run("leave")
        assert done.returncode == 0, done.stderr
        assert nothing(other), other.leftovers()


@pytest.mark.parametrize("step", FORCED_KILLS)
def test_killed_on_the_way_in_leaving_by_force_leaves_nothing(cluster: Cluster, step: str) -> None:
    other = cluster.other
    other.prepare()
    joining = cluster.join(cluster.token(), "--name", f"forced-{step}")
    joining.until_said(f"tarmac: {step}\n")
    joining.kill()
    done = other.run("leave", "--force")
    assert done.returncode == 0, done.stderr
    # Before the configuration was written, no server can know it.
    assert f"tarmac node remove forced-{step}" in done.stderr or step == "configuration"
    assert nothing(other), other.leftovers()
    removed = cluster.server.run(
        "node", "remove", f"forced-{step}", "--force", "--kubeconfig", "/var/lib/tarmac/kubeconfig"
    )
    assert removed.returncode in (0, 1), "it may have been killed before the server knew of it"
    assert f"forced-{step}" not in cluster.server.kubectl("get", "nodes")


def test_every_obstacle_is_told_at_once_and_nothing_is_changed(cluster: Cluster) -> None:
    other = cluster.other
    other.prepare()
    before = other.leftovers()["files"]
    script = "import socket,time; s=socket.create_server(('0.0.0.0', 10250)); time.sleep(60)"
    listening = subprocess.Popen(other.command(sys.executable, "-c", script))
    try:
        until(lambda: "create_server" in str(other.processes()))
        token = cluster.token()
        joining = other.start("join", "198.18.0.77:6443", "--token", token, "--foreground")
        assert joining.process.wait(40) == 3
        lines = [line.removeprefix("tarmac: ").removeprefix("error: ") for line in joining.said.splitlines()]
        assert [line.partition(":")[0] for line in lines] == ["warning", "checks", "node-port", "server"]
        assert "10250/tcp cannot be bound (Address already in use)" in joining.said
        assert set(other.leftovers()["files"]) - set(before) <= {"/var/lib/tarmac/setup.lock"}
    finally:
        listening.kill()
        listening.wait()


def test_init_killed_at_every_step_goes_on_and_leaves_nothing(tmp_path: Path) -> None:
    init = ("init", "--location", "dfw", "--foreground", "--listen", "198.18.0.1:6443")
    with boxes(tmp_path, "alpha") as (box,):
        for _ in range(TIMES):
            box.prepare()
            for steps in INIT_KILLS:
                starting = box.start(*init)
                starting.until_told(steps)
                starting.kill()
            box.start(*init).until_said("join another machine")
            second = box.run("init")  # while it runs
            assert second.returncode == 0, second.stderr
            assert "already initialized (CA sha256:" in second.stderr
            kept = box.run("leave", "--force")
            stays = box.path("/var/lib/tarmac/store.db").exists()
            assert (kept.returncode, stays) == (0, True), "its data is not a node's"
            for written in ("/var/lib/tarmac/secrets.key", "/etc/tarmac/config.yaml"):  # and killed at that
                path = box.path(written)
                path.with_name(f".{path.name}.killed").write_bytes(path.read_bytes())
            done = box.run("leave", "--force", "--delete-data")
            assert done.returncode == 0, done.stderr
            assert nothing(box), box.leftovers()
        for steps in INIT_KILLS if SOAK else ():
            box.prepare()
            starting = box.start(*init)
            starting.until_told(steps)
            starting.kill()
            done = box.run("leave", "--force", "--delete-data")
            assert (done.returncode, nothing(box)) == (0, True), f"{steps}: {done.stderr}\n{box.leftovers()}"
