"""An agent on a machine without NVIDIA's driver loads nothing that serves GPUs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.config.flags import Flags
from tarmac.apps.node.findgpus import find_gpus
from tarmac.base.clock import SystemClock

SERVING = (
    "gpumetrics",
    "gpus",
    "kernellog",
    "nvml",
    "plugin",
    "program",
    "report",
    "samples",
    "sampling",
    "supervising",
    "xids",
)
LOADED = "import sys, tarmac.apps.node.composing; print(*(each for each in sys.modules if 'nvidia' in each))"


def test_an_agent_without_gpus_loads_no_module_that_serves_them() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    loaded = {each.rpartition(".")[2] for each in done.stdout.split() if "devices.nvidia." in each}
    assert "kerneldriver" in loaded, "the one that looks for the driver"
    assert loaded.isdisjoint(SERVING)
    assert "tarmac.apps.node.nvidia" not in done.stdout.split()


@pytest.mark.parametrize("wanted", ["auto", "off"])
def test_a_machine_without_the_driver_has_no_gpus(tmp_path: Path, wanted: str) -> None:
    flags = Flags(node_name="n", kubeconfig=tmp_path, node_labels={}, feature_gates={}, nvidia=cast("Any", wanted))
    config = cast("AgentConfig", type("Config", (), {"flags": flags}))
    assert find_gpus(config, SystemClock(), lambda *_: None, root=tmp_path) is None
