"""The figures of all GPUs as a file: written by the plugin every few seconds, read by the agent.

A file, because it is there for an agent that starts later, and costs nothing where no agent reads it. It also carries
the last critical XID of each GPU over a restart of the plugin.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tarmac.agent.devices.nvidia.gpunames import resource_of
from tarmac.agent.devices.nvidia.gpus import GpuState, GpuStates
from tarmac.base.statefiles import read_state, replace_state

MAX_BYTES: Final = 1 << 20
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


def report(
    states: GpuStates, driver: str, without_nvml: str, names: dict[str, str], without_xids: str = ""
) -> dict[str, Any]:
    """Return the report. The two texts say why there are no figures, and why no XIDs; empty if there are."""
    return {
        "boot": boot_id(),
        "driver": driver,
        "withoutNvml": without_nvml,
        "withoutXids": without_xids,
        "gpus": [_row(state, names) for state in states.states.values()],
        "leftOut": dict(states.left_out),
    }


def write_report(path: Path, content: dict[str, Any]) -> None:
    """Replace the file. Raises OSError."""
    replace_state(path, json.dumps(content, separators=(",", ":")).encode())


def critical_before(path: Path) -> dict[str, tuple[int, float]]:
    """Return the last critical XIDs of a report of this boot; a damaged or older one has none."""
    try:
        told = json.loads(read_state(path, MAX_BYTES))
        # XIDs of an earlier boot say nothing: the GPUs were initialized again.
        if told["boot"] != boot_id():
            return {}
        return {
            row["uuid"]: (int(row["critical"][0]), float(row["critical"][1])) for row in told["gpus"] if row["critical"]
        }
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return {}


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return _BOOT.read_text().strip()


def _row(state: GpuState, names: dict[str, str]) -> dict[str, Any]:
    gpu, sample = state.gpu, state.sample
    return {
        "uuid": gpu.uuid,
        "index": gpu.minor,
        "bus": gpu.bus,
        "product": gpu.product,
        "resource": resource_of(gpu.product, names),
        "reason": state.reason,
        "critical": state.critical,
        "xids": {str(xid): count for xid, count in state.xids.items()},
        "utilization": sample.utilization if sample else None,
        "memoryUsed": sample.memory_used if sample else None,
        "memoryTotal": sample.memory_total if sample else None,
        "power": sample.power if sample else None,
        "temperature": sample.temperature if sample else None,
    }
