"""Metrics of GPUs as the agent reports them, and as `tarmac top --gpu` reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.devices.nvidia.gpumetrics import gpu_metrics
from tarmac.agent.devices.nvidia.gpus import GpuStates
from tarmac.agent.devices.nvidia.kerneldriver import read_gpus
from tarmac.agent.devices.nvidia.report import report, write_report
from tarmac.agent.devices.nvidia.supervising import NvidiaSupervisor
from tarmac.agent.stats.agent import process_metrics
from tarmac.agent.stats.hostusage import MachineStats
from tarmac.agent.stats.summary import NodeStats
from tarmac.base.clock import ManualClock
from tarmac.cli.top.gpus import gpu_document, gpu_table, parsed
from tests.agent.devices.nvidia.fakedriver import H200, VERSION, FakeDriver
from tests.agent.stats.scene import Scene
from tests.support.exposition import series

POD: dict[str, Any] = {
    "metadata": {
        "uid": "u", "namespace": "ml", "name": "train-0",
        "labels": {"compute.datumapis.com/workload-name": "train", "compute.datumapis.com/city-code": "DFW"},
        "ownerReferences": [{"kind": "Instance", "name": "train-0", "apiVersion": "v", "uid": "i"}],
    }
}  # fmt: skip


async def exposed(samples: list[Any], tmp_path: Path) -> str:
    """Return the agent's metrics with these samples."""
    scene = Scene(tmp_path)
    sources = [lambda: samples, process_metrics]
    return await NodeStats("n", MachineStats(), scene.stats, tmp_path, lambda: "", scene.clock, sources).metrics()


def figures_of(tmp_path: Path) -> list[Any]:
    """Return the metrics of two GPUs: one is allocated to the pod, the other is unhealthy."""
    driver = FakeDriver(tmp_path / "root", H200, H200)
    states = GpuStates(driver.root, ManualClock().now)
    states.apply(read_gpus(driver.root), None)
    states.on_xid((0, 6, 0), 79)
    content = report(states, VERSION, "", {})
    content["gpus"][0] |= {"utilization": 0.4, "memoryUsed": 2 << 30, "memoryTotal": 140 << 30, "power": 350.0}
    file = tmp_path / "report.json"
    write_report(file, content)
    supervisor = NvidiaSupervisor([], file, ManualClock(), lambda *_: None)
    supervisor.read()
    held = {"datumcloud.com/nvidia-h200": {"GPU-00000000": "u"}}
    return list(gpu_metrics("n", lambda: supervisor.report, lambda resource: held[resource], lambda: [POD])())


def test_each_gpu_has_its_figures_labelled_with_the_pod_that_has_it(tmp_path: Path) -> None:
    found = {
        (name, labels["gpu"], labels.get("state", "")): (labels, value)
        for name, _, labels, value in figures_of(tmp_path)
    }
    labels, value = found["tarmac_gpu_utilization_ratio", "GPU-00000000", ""]
    assert value == 0.4
    assert labels == {
        "node": "n", "gpu": "GPU-00000000", "index": "0", "model": "NVIDIA H200",
        "resource": "datumcloud.com/nvidia-h200", "namespace": "ml", "pod": "train-0", "instance": "train-0",
        "workload": "train", "city": "DFW",
    }  # fmt: skip
    assert found["tarmac_gpu_memory_bytes", "GPU-00000000", "used"][1] == 2 << 30
    labels, value = found["tarmac_gpu_xid_total", "GPU-00000001", ""]
    assert (labels["xid"], labels["pod"], value) == ("79", "", 1)
    assert found["tarmac_gpu_healthy", "GPU-00000001", ""][1] == 0
    assert ("tarmac_gpu_utilization_ratio", "GPU-00000001", "") not in found


async def test_metrics_of_gpus_parse_as_prometheus_text(tmp_path: Path) -> None:
    """Names from hosts and drivers may hold quotes, backslashes and line ends."""
    samples = [
        (name, kind, {**labels, "model": 'NVIDIA "H200"\\\n'}, value)
        for name, kind, labels, value in figures_of(tmp_path)
    ]
    found = series(await exposed(samples, tmp_path))
    assert len(found) > len(samples)
    for name, _, labels, value in samples:
        assert found[name, frozenset(labels.items())] == pytest.approx(value)


async def test_top_reads_what_the_agent_reports(tmp_path: Path) -> None:
    rows = parsed("n", await exposed(figures_of(tmp_path), tmp_path))
    head, first_line, second_line = gpu_table(rows).splitlines()
    assert head.split() == ["NODE", "GPU", "MODEL", "GPU%", "MEMORY", "POWER", "TEMPERATURE", "HEALTH", "POD"]
    assert first_line.split("  ")[:1] == ["n"]
    assert " ".join(first_line.split()) == "n 0 NVIDIA H200 40% 2.0/140Gi 350W - Healthy ml/train-0"
    assert " ".join(second_line.split()) == "n 1 NVIDIA H200 - - - - XID 79: GPU has fallen off the bus -"
    first, second = gpu_document(rows)["gpus"]
    assert (first["utilization"], first["pod"], first["healthy"]) == (0.4, "train-0", True)
    assert (second["utilization"], second["pod"], second["healthy"]) == (None, None, False)


def test_top_leaves_out_lines_that_are_no_figures_and_gpus_beyond_a_nodes_limit() -> None:
    lines = [f'tarmac_gpu_healthy{{gpu="g{number}",index="{number}"}} 1' for number in range(1000)]
    wrong = [
        'tarmac_gpu_healthy{gpu="x"} nan',
        'tarmac_gpu_healthy{gpu="y"',
        "tarmac_gpu_healthy 1",
        'tarmac_gpu_a{gpu="z"} b',
    ]
    assert parsed("n", "\n".join(wrong)) == []
    assert len(parsed("n", "\n".join(lines))) == 64
