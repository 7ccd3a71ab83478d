"""The metrics of servers and agents are Prometheus text while every feature gate is on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tarmac.base.gates import REGISTRY
from tests.egress.planet import CITIES, ORDERS, SERVICE, Outside
from tests.node.planet import Planet, down
from tests.support.exposition import series
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

GATES = ",".join(f"{gate.name}=true" for gate in REGISTRY)
OF_AGENTS = {
    "kubelet_running_pods", "node_cpu_usage_seconds_total", "process_open_fds", "tarmac_disk_available_bytes",
    "tarmac_external_connections_total", "tarmac_machine_start_seconds_count",
}  # fmt: skip
OF_SERVERS = {"apiserver_request_total", "apiserver_storage_objects", "process_open_fds", "workqueue_depth"}


@pytest.fixture(scope="module")
def planet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planet]:
    directory = tmp_path_factory.mktemp("gates") / "data"
    flags = ("--runtime", "containerd", "--cities", ",".join(CITIES), "--outside", f"--feature-gates={GATES}")
    try:
        with TarmacProcess(directory, *flags, command="up") as process:
            yield Planet(process, directory.parent)
    finally:
        done = down(directory)
        assert done.returncode == 0, f"tarmac down left something: {done.stderr}"


def test_metrics_of_servers_and_nodes_parse_with_every_feature_gate_on(planet: Planet) -> None:
    outside = Outside(planet)
    try:
        outside.use("externalservice.yaml", SERVICE)
        assert outside.seen(outside.pods("orders")[0]) == ORDERS
    finally:
        outside.watch.close()
    found: set[str] = set()
    for node in outside.cities:
        for path in ("metrics", "metrics/resource"):
            told = series(planet.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/{path}"))
            assert told, (node, path)
            found |= {name for name, _ in told}
    assert found >= OF_AGENTS, OF_AGENTS - found
    found = {name for name, _ in series(planet.kubectl("get", "--raw", "/metrics"))}
    assert found >= OF_SERVERS, OF_SERVERS - found
