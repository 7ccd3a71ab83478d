"""A GPU that fails, on a machine with a fake driver and on a simulated node: a user sees the same.

The machine runs the real agent, device plugin, containerd and gVisor; its kernel's log reports an XID.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.machines.boxes import until
from tests.machines.gpubox import GPU, NODE, gpu_box
from tests.node.planet import Json, Planet, busybox, pod
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]

XID = 48
CONFIG = f"""
devices: {{{GPU}: 2, datumcloud.com/nvidia-tesla-a100: 0}}
unhealthyDevices: {{{GPU}: 1}}
gpuXid: {XID}
"""
FIGURES = ("utilization", "memoryUsed", "memoryTotal", "powerWatts", "temperatureCelsius")
Seen = dict[str, Any]
Program = Callable[..., str]


def story(kubectl: Program, tarmac: Program, apply: Callable[[Json], None]) -> Seen:
    """One of two GPUs has failed: a pod gets the other, a second one waits."""

    def get(*words: str) -> Json:
        return json.loads(kubectl("get", *words, "-o", "json"))

    def gpus() -> list[Json]:
        return json.loads(tarmac("top", "--gpu", "-o", "json"))["gpus"]

    def told() -> list[tuple[str, str, str]]:
        found = (each for each in get("events", "-A")["items"] if each["involvedObject"]["kind"] == "Node")
        said = {(each["type"], each["reason"], re.sub(r"GPU-\S+", "GPU", each["message"])) for each in found}
        return sorted(each for each in said if each[1] in ("DeviceUnhealthy", "NvmlUnavailable", "XidsUnavailable"))

    until(lambda: get("node", NODE)["status"]["allocatable"].get(GPU) == "1", 60)
    until(told, 60)
    for name in ("first", "second"):
        apply(pod(name, busybox(resources={"limits": {GPU: "1"}})))
        if name == "first":
            kubectl("wait", "pod/first", "--for=condition=Ready", "--timeout=80s")
    until(lambda: _unscheduled(get("pod", "second")), 60)
    until(lambda: [each["pod"] for each in gpus()] == ["first", None], 60)
    until(lambda: all(each[name] is not None for each in gpus() for name in FIGURES), 60)
    status = get("node", NODE)["status"]
    [condition] = [each for each in status["conditions"] if each["type"] == "GPUsSandboxable"]
    return {
        "amounts": (status["capacity"][GPU], status["allocatable"][GPU]),
        "condition": (condition["status"], condition["reason"]),
        "events": told(),
        "class": get("pod", "first")["spec"]["runtimeClassName"],
        "waits": _unscheduled(get("pod", "second")),
        "gpus": [{name: value for name, value in each.items() if name not in FIGURES} for each in gpus()],
        "columns": tarmac("top", "--gpu").splitlines()[0].split(),
        "xids": re.findall(r'tarmac_gpu_xid_total\{.*xid="(\d+)".*\} (\d+)', _metrics(kubectl)),
    }


def _metrics(kubectl: Program) -> str:
    return kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/metrics")


def _unscheduled(found: Json) -> tuple[str, str] | None:
    """Reason and message of a pod that no node takes."""
    conditions = found["status"].get("conditions") or ()
    return next(((each["reason"], each["message"]) for each in conditions if each["status"] == "False"), None)


def on_a_machine(folder: Path) -> Seen:
    folder.mkdir()
    with gpu_box(folder, gpus=2) as box:

        def program(run: Callable[..., subprocess.CompletedProcess[str]]) -> Program:
            def call(*words: str) -> str:
                done = run(*words)
                assert done.returncode == 0, f"{words}: {done.stderr}"
                return done.stdout

            return call

        def apply(manifest: Json) -> None:
            assert box.apply(manifest) == ""

        gpu = box.driver.gpus[1]
        box.driver.xid(gpu, XID)
        gpu.action = 1  # it stays broken: the driver asks for a reset
        box.driver.say(gpu)
        kubeconfig = f"--kubeconfig={box.data_dir}/kubeconfig"
        return story(program(box.client), program(lambda *words: box.run(*words, kubeconfig)), apply)


def on_a_simulated_node(folder: Path) -> Seen:
    folder.mkdir()
    (folder / "config.yaml").write_text(CONFIG)
    flags = ("--runtime=sim", "--cities=DFW", "--sim-nodes=1", f"--sim-node-config={folder / 'config.yaml'}")
    with TarmacProcess(folder / "data", *flags, command="up") as process:
        planet = Planet(process, folder)
        return story(planet.kubectl, planet.tarmac, planet.apply)


def test_a_user_sees_the_same_of_a_gpu_that_failed(tmp_path: Path) -> None:
    real = on_a_machine(tmp_path / "machine")
    assert real["events"] == [("Warning", "DeviceUnhealthy", f"NVIDIA H200 GPU ({GPU}): XID 48: double-bit ECC error")]
    assert real["gpus"][1]["reason"] == "XID 48: double-bit ECC error"
    assert real["xids"] == [("48", "1")]
    assert on_a_simulated_node(tmp_path / "simulated") == real
