"""GPU metrics of a stolen node, and a plugin that lies: other rows, terminals and agents are unharmed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.devices.nvidia.gpumetrics import gpu_metrics
from tarmac.agent.devices.nvidia.supervising import NvidiaSupervisor
from tarmac.base.clock import ManualClock
from tarmac.base.metrics import labels_text
from tarmac.cli.rendering.text import printable_json
from tarmac.cli.top.gpus import GpuUsage, _without_figures, gpu_document, gpu_table, parsed

MAX_ROWS, MAX_WIDTH, SECONDS = 64, 800, 1.0
LINE = 'tarmac_gpu_{}{{gpu="{}",index="{}",model="{}"}} {}'
HOSTILE = {
    "numbers": [LINE.format("power_watts", "g", 0, "m", each) for each in ("1e308", "-1e308", "1e400", "nan", "-inf")],
    "long numbers": [LINE.format("power_watts", "g", 0, "m", "9" * 100_000)],
    "digits of other scripts": [LINE.format("power_watts", "g", 0, "m", each) for each in ("٣", "²", "1_0", "0x10")],
    "more than all": [LINE.format("utilization_ratio", "g", 0, "m", "1e18")],
    "a model of a megabyte": [LINE.format("healthy", "g", 0, "m" * 1_000_000, 1)],
    "an index of a megabyte": [LINE.format("healthy", "g", "9" * 1_000_000, "m", 1)],
    "terminal sequences": [LINE.format("healthy", "g", "\x1b[2J", "\x1b]0;evil\x07\x9b2J", 1)],
    "text direction": [LINE.format("healthy", "g", "\u202e0", "\u2066m", 1)],
    "line ends": [LINE.format("healthy", "g", 0, "m\\nother-node  0  H100  99%", 1)],
    "line ends of Unicode": [LINE.format("healthy", "h", 0, "m\u2028x\x85y", 1)],
    "backslashes": [LINE.format("healthy", "g", 0, "\\" * 100_000, 1)],
    "quotes without end": ['tarmac_gpu_healthy{gpu="' + 'a="' * 100_000],
    "labels without end": ["tarmac_gpu_healthy{" + 'a="",' * 100_000],
    "labels that nearly fit": ["tarmac_gpu_healthy{" + 'a="b"' * 100_000 + "}"],
    "names without end": ["tarmac_gpu_" + "a" * 1_000_000],
    "GPUs by the thousand": [LINE.format("healthy", f"g{number}", number, "m", 1) for number in range(20_000)],
    "XIDs by the thousand": [f'tarmac_gpu_xid_total{{gpu="g",xid="{number}"}} 1' for number in range(20_000)],
    "empty lines": ["", "\r", "\0", " "] * 50_000,
    "pods of other tenants": ['tarmac_gpu_healthy{gpu="g",index="0",model="m",namespace="bank",pod="\x1b[31mdb"} 1'],
    "no text": ["\ufffd" * 100_000],
}  # fmt: skip


def shown(rows: list[GpuUsage]) -> str:
    return gpu_table(rows) + printable_json(json.dumps(gpu_document(rows), ensure_ascii=False))


@pytest.mark.parametrize("name", HOSTILE)
def test_figures_of_a_hostile_node_stay_in_its_rows(name: str) -> None:
    began = time.thread_time()
    rows = parsed("n", "\n".join(HOSTILE[name]))
    text = shown(rows)
    assert time.thread_time() - began < SECONDS
    assert len(rows) <= MAX_ROWS
    assert {row.node for row in rows} <= {"n"}
    assert text.replace("\n", "").isprintable()
    table = gpu_table([*rows, GpuUsage("honest", "0", "H100", figures={"healthy": 1.0})]).rstrip("\n").split("\n")
    assert max(map(len, table)) < MAX_WIDTH
    assert sum(line.startswith("honest ") for line in table) == 1
    assert not any(line.startswith("other-node") for line in table)


def test_a_node_without_figures_has_few_rows() -> None:
    capacity = {f"datumcloud.com/nvidia-{number}": "9" * 1000 for number in range(10_000)}
    rows = _without_figures("n", {"status": {"capacity": capacity, "allocatable": capacity}})
    assert len(rows) == MAX_ROWS


GPU: dict[str, Any] = {"uuid": "GPU-0", "index": 0, "product": "NVIDIA H200", "resource": "datumcloud.com/nvidia-h200"}
SECRET = "stolen"
REPORTS: dict[str, Any] = {
    "nothing": b"", "no JSON": b"{", "a list": [], "a text": "x", "GPUs that are none": {"gpus": [1, None]},
    "a GPU without a name": {"gpus": [{"index": 0}]}, "GPUs as an object": {"gpus": {"a": GPU}},
    "memory of 1e400": b'{"gpus":[{"uuid":"a","index":0,"product":"p","resource":"r","memoryUsed":1e400}]}',
    "an index of 5,000 digits": b'{"gpus":[{"uuid":"a","index":%b,"product":"p","resource":"r"}]}' % (b"9" * 5000),
    "power that is no number": b'{"gpus":[{"uuid":"a","index":0,"product":"p","resource":"r","power":NaN}]}',
    "lines in a product": {"gpus": [{**GPU, "product": 'x"} 1\ntarmac_node_resource{node="other"} 9\n#'}]},
    "lines in a reason": {"gpus": [{**GPU, "reason": 'x\\"} 1\ntarmac_gpu_healthy{gpu="other"} 1'}]},
    "lines in an XID": {"gpus": [{**GPU, "xids": {'1"} 9\nevil{a="': 1}}]},
    "thousands of XIDs": {"gpus": [{**GPU, "xids": {str(number): 1 for number in range(20_000)}}]},
    "the same GPU many times": {"gpus": [GPU] * 5000},
    "thousands of GPUs": {"gpus": [{**GPU, "uuid": f"G{n}"} for n in range(5000)]},
    "a pipe": "pipe", "a link to a secret": "link", "two megabytes": b" " * 2_000_000, "lists in lists": b"[" * 500_000,
    "no UTF-8": b'{"driver":"\xff"}', "a healthy dead GPU": {"gpus": [{**GPU, "reason": "", "utilization": -1e18}]},
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_of_a_lying_plugin_is_read_whole_or_not_at_all(tmp_path: Path, name: str) -> None:
    content, file, told = REPORTS[name], tmp_path / "report.json", list[tuple[str, ...]]()
    if content == "pipe":
        os.mkfifo(file)
    elif content == "link":
        (tmp_path / "secret").write_text(json.dumps({"driver": SECRET}))
        file.symlink_to(tmp_path / "secret")
    else:
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    supervisor = NvidiaSupervisor([], file, ManualClock(), lambda *event: told.append(event))
    began = time.thread_time()
    supervisor.read()
    samples = list(gpu_metrics("n", lambda: supervisor.report, lambda _: {}, list)())
    assert time.thread_time() - began < SECONDS
    assert supervisor.report.driver != SECRET
    for metric, _, labels, value in samples:
        line = f"{metric}{labels_text(labels.items())} {value}"
        assert "\n" not in line
        assert {row.node for row in parsed("n", line)} <= {"n"}
    assert supervisor.report.gpus == [] or all(row.uuid for row in supervisor.report.gpus)
