"""The GPU trial's own parts: its table grows with each row, and its watch counts running containers by GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.gputrial.faults import judge_holders
from tools.gputrial.table import Rows
from tools.gputrial.watch import HolderWatch


def a_container(folder: Path, name: str, *nodes: str, status: str = "running") -> dict[str, Any]:
    """A container as gVisor lists it, and its configuration."""
    bundle = folder / name
    bundle.mkdir()
    devices = [{"path": node, "type": "c"} for node in nodes]
    (bundle / "config.json").write_text(json.dumps({"linux": {"devices": devices}}))
    return {"id": name, "status": status, "bundle": str(bundle)}


def test_a_gpu_in_two_running_containers_fails_the_trial(tmp_path: Path) -> None:
    watch, rows = HolderWatch(Path("/nonexistent")), Rows()
    one = a_container(tmp_path, "one", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm")
    watch.count([one, a_container(tmp_path, "two", "/dev/nvidia1", "/dev/nvidiactl")])
    assert (watch.samples, watch.most, watch.twice) == (1, 1, [])
    watch.count([one, a_container(tmp_path, "three", "/dev/nvidia0")])
    assert watch.most == 2
    judge_holders(rows, watch)
    assert not rows.good


def test_stopped_containers_and_those_without_a_gpu_hold_none(tmp_path: Path) -> None:
    watch, rows = HolderWatch(Path("/nonexistent")), Rows()
    watch.count([a_container(tmp_path, "ended", "/dev/nvidia0", status="stopped"), a_container(tmp_path, "plain")])
    assert (watch.samples, watch.most) == (0, 0)
    judge_holders(rows, watch)
    assert not rows.good, "a trial that never saw a GPU in a container proves nothing"


def test_the_table_is_on_the_disk_after_every_row(tmp_path: Path) -> None:
    rows = Rows(file=tmp_path / "table.md")
    rows.add("driver", "580 | open")
    assert (tmp_path / "table.md").read_text().splitlines()[-1] == "| driver | 580 / open |  |  |"
    rows.judge("copy", "0.94", "≥ 0.95", good=False)
    assert "| copy | 0.94 | ≥ 0.95 | MISSED |" in (tmp_path / "table.md").read_text()
    assert not rows.good
