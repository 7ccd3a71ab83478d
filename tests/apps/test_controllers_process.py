"""`tarmac controllers` as a process: invalid settings, and takeover from another process."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.support.controllers_process import running_controllers
from tests.support.kubectl import Kubectl
from tests.support.ports import free_port
from tests.support.tarmac_process import TarmacProcess

QUICK = (
    "--leader-elect-lease-duration=2s",
    "--leader-elect-renew-deadline=1500ms",
    "--leader-elect-retry-period=300ms",
)


def _refused(*arguments: str) -> str:
    command = [sys.executable, "-m", "tarmac.apps.main", "controllers", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    return done.stderr


def test_unusable_settings_are_refused_with_the_reason(tmp_path: Path) -> None:
    assert "no such controller: gardener" in _refused("--controllers=*,-gardener")
    assert "lease_duration must exceed renew_deadline" in _refused("--leader-elect-lease-duration=1s")
    assert str(tmp_path / "none") in _refused("--kubeconfig", str(tmp_path / "none"))


def test_the_health_port_answers_probes_and_nothing_else(tmp_path: Path) -> None:
    port = free_port()
    with TarmacProcess(tmp_path / "data", "--controllers=") as server:
        own, log = server.data_dir / "controllers.kubeconfig", tmp_path / "controllers.log"
        with running_controllers(own, log, f"--health-port={port}"):
            assert _probe(port, "/healthz") == (200, "ok")
            assert _probe(port, "/metrics") == (404, "only /healthz is served here\n")
            assert f"port {port}: cannot listen" in _refused("--kubeconfig", str(own), f"--health-port={port}")


def _probe(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_another_process_takes_over_from_a_leader_that_is_gone(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", "--controllers=") as server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        own = server.data_dir / "controllers.kubeconfig"
        with running_controllers(own, tmp_path / "first.log", *QUICK) as first:
            _wait(kubectl, "before", tmp_path / "first.log")
            with running_controllers(own, tmp_path / "second.log", *QUICK):
                first.kill()
                _wait(kubectl, "after", tmp_path / "second.log")
    assert "leading" in (tmp_path / "first.log").read_text()
    assert re.search(r"epoch=[1-9]", (tmp_path / "second.log").read_text()), "a later epoch than the first"


def _wait(kubectl: Kubectl, namespace: str, log: Path) -> None:
    """Create a namespace and wait for its Network, which a controller creates."""
    kubectl("create", "namespace", namespace)
    for _ in range(150):
        if kubectl.run("get", "network", "default", "-n", namespace).code == 0:
            return
        time.sleep(0.1)
    raise AssertionError(f"nobody looks after {namespace}:\n{log.read_text()[-2000:]}")
