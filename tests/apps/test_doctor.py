"""`tarmac doctor`: one list of all checks, which finds and names each planted fault."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from tarmac.apps.doctor import DoctorCheck, check_cluster, check_configuration, check_host, check_kvm, report
from tarmac.apps.host import checks
from tarmac.apps.host.hostlayout import Machine
from tarmac.base.clock import ManualClock, rfc3339
from tarmac.client.client import Client
from tarmac.client.transport import ClientRequest, Reply
from tests.apps.test_backups import tarmac
from tests.cli.test_cluster_status import BACKUPS, METRICS, NOW, READY, Cluster, lists, node, with_tunnels
from tests.support.tarmac_process import TarmacProcess

NODES = "/api/v1/nodes"


class Dated(Cluster):
    """A cluster whose responses have a `Date` header."""

    def __init__(self, lists: dict[str, Any], texts: dict[str, tuple[int, str]], now: float) -> None:
        super().__init__(lists, texts)
        self._date = formatdate(now, usegmt=True)

    async def request(self, request: ClientRequest) -> Reply:
        if request.path == "/version":
            return Reply(200, {"date": self._date}, b"{}")
        return await super().request(request)


@dataclass
class Cases:
    """Responses of the fake cluster."""

    lists: dict[str, Any] = field(default_factory=lists)
    metrics: str = METRICS
    ready: str = READY
    code: int = 200
    now: float = NOW

    def found(self) -> list[DoctorCheck]:
        texts = {"/metrics": (200, self.metrics), "/readyz": (self.code, self.ready)}
        client = Client(Dated(self.lists, texts, self.now), ManualClock(NOW))

        async def collect() -> list[DoctorCheck]:
            return [each async for each in check_cluster(client)]

        return asyncio.run(collect())


def failures(found: list[DoctorCheck]) -> list[str]:
    return [f"{each.check}: {each.message}" for each in found if each.state == "failed"]


def test_a_healthy_cluster_has_no_finding() -> None:
    assert Cases().found() == [DoctorCheck("server", "ok"), DoctorCheck("clock", "ok"), DoctorCheck("cluster", "ok")]


@pytest.mark.parametrize(("seconds", "way"), [(60.0, "60s behind"), (-14400.0, "4h ahead of")])
def test_a_clock_that_differs_from_the_servers_is_found(seconds: float, way: str) -> None:
    [failed] = failures(Cases(now=NOW + seconds).found())
    assert failed.startswith(f"clock: this host's clock is {way} the server's")


def test_a_failing_store_is_found() -> None:
    ready = "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n"
    assert failures(Cases(ready=ready, code=500).found()) == ["cluster: store: the check store fails"]


def test_a_lost_node_is_found() -> None:
    cases = Cases()
    cases.lists[NODES][1] = node("dfw-1", "Unknown", "NodeStatusUnknown")
    assert failures(cases.found()) == ["cluster: node dfw-1: NodeStatusUnknown"]


def test_a_closed_port_between_nodes_is_found() -> None:
    cases = Cases()
    closed = (("dfw-0", "4789/udp to dfw-1 is closed"), ("dfw-1", "4789/udp from dfw-0 is closed"))
    cases.lists[NODES] = [with_tunnels(node(name), "False", message) for name, message in closed]
    assert failures(cases.found()) == ["cluster: tunnel closed: dfw-0 to dfw-1, 4789/udp"]


def test_a_certificate_that_expires_soon_is_found() -> None:
    metrics = METRICS.replace("31000000", "864000")
    assert failures(Cases(metrics=metrics).found()) == ["cluster: certificate server expires in 10d"]


def test_an_old_backup_is_found() -> None:
    cases = Cases()
    cases.lists[BACKUPS]["data"]["time"] = rfc3339(NOW - 3 * 86400)
    assert failures(cases.found()) == ["cluster: the newest backup is 3d old"]


def test_a_part_that_the_caller_may_not_see_is_skipped() -> None:
    cases = Cases()
    cases.lists[NODES] = (403, "Forbidden")
    assert DoctorCheck("cluster", "skipped", "may not list nodes") in cases.found()


def test_a_mistake_in_the_configuration_is_found(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    assert [each.state for each in check_configuration(file)] == ["skipped"]
    file.write_text("apiVersion: config.tarmac.dev/v1alpha1\nkind: ServerConfig\nflavour: 1\n")
    [failed] = failures(list(check_configuration(file)))
    assert "flavour" in failed


def test_a_file_that_the_configuration_names_and_that_is_missing_is_found(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    text = f"apiVersion: config.tarmac.dev/v1alpha1\nkind: ServerConfig\nencryptionKeyFile: {tmp_path}/none\n"
    file.write_text(text)
    [failed] = failures(list(check_configuration(file)))
    assert failed.endswith(f"encryptionKeyFile: there is no {tmp_path}/none")


@pytest.mark.root
def test_a_missing_program_a_full_disk_and_a_taken_port_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_TOOLS", {"no-such-program": "no-such-package"})
    monkeypatch.setattr(checks, "MIN_FREE_BYTES", 1 << 60)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(checks, "_PORTS", {"node-port": (socket.SOCK_STREAM, port, f"{port}/tcp")})
        failed = failures(list(check_host(Machine(data=tmp_path))))
    assert [each.partition(":")[0] for each in failed] == ["packages", "disk", "node-port"]
    assert "no-such-package" in failed[0]


@pytest.mark.root
def test_tunnels_that_a_stopped_agent_left_do_not_count_as_a_taken_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(data=tmp_path, run=tmp_path / "run")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tunnel:
        tunnel.bind(("127.0.0.1", 0))
        port = tunnel.getsockname()[1]
        monkeypatch.setattr(checks, "_PORTS", {"vxlan-port": (socket.SOCK_DGRAM, port, f"{port}/udp")})
        assert [each.check for each in check_host(machine) if each.check == "vxlan-port"] == ["vxlan-port"]
        (machine.run / "agent" / "netns").mkdir(parents=True)  # the networks of its pods
        assert [each for each in check_host(machine) if each.check == "vxlan-port"] == []


def test_a_host_without_the_accelerator_of_machines_is_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarmac.apps.doctor.kvm_group", lambda: None)
    assert check_kvm().state == "warning"


def test_the_table_counts_failures() -> None:
    text = report([DoctorCheck("server", "ok"), DoctorCheck("clock", "failed", "this host's clock is 2h behind")])
    assert text.splitlines() == [
        "CHECK   STATE   MESSAGE",
        "server  ok",
        "clock   failed  this host's clock is 2h behind",
        "1 of 2 checks failed",
    ]


def test_the_command_checks_a_server_and_fails_without_one(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", "--controllers=namespace") as server:
        words = ("doctor", "-o", "json", f"--kubeconfig={server.kubeconfig}", f"--data-dir={server.data_dir}")
        found = _states(tarmac(*words))
        assert found["server"] == found["clock"] == "ok"
        assert found["backup"] == "warning"
        server.stop()
    failed = tarmac(*words)
    assert failed.returncode == 1
    assert _states(failed)["server"] == "failed"


def _states(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode in (0, 1), done.stderr
    return {each["check"]: each["state"] for each in json.loads(done.stdout)}
