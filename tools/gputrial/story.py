"""The steps of the trial, in order; each adds rows to the table."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from tools.gputrial import image
from tools.gputrial.machine import DATA, Machine, TrialFailed, run
from tools.gputrial.table import Rows

ANSWER_BAR: Final = 1.5
PLUGIN_BAR: Final = 25.0
ROUNDS: Final = 3
LIBRARIES: Final = "/opt/tarmac/lib/cp312"
NODE: Final = "dfw-0"
_SAMPLE: Final = """
import os, subprocess, time
from pathlib import Path
from tarmac.agent.devices.nvidia.kerneldriver import driver_version, read_gpus
from tarmac.agent.devices.nvidia.sampling import sampling_command
root = Path("/")
words = [*sampling_command(root, driver_version(root)), *(gpu.uuid for gpu in read_gpus(root))]
began = time.monotonic()
done = subprocess.run(words, capture_output=True, text=True)
passed, times = time.monotonic() - began, os.times()
print(f"{passed:.2f} s, {times.children_user + times.children_system:.2f} s of CPU, {done.stdout[:400]}")
"""
_PROGRAM: Final = Path(__file__).with_name("program.py")
_CLEANED: Final = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def workload(name: str, resource: str, **annotations: str) -> dict[str, Any]:
    """A Workload with one instance that requests one GPU."""
    sandbox = {"containers": [{"name": "main", "image": image.NAME}]}
    amounts = {"cpu": "2", "memory": "8Gi", **({resource: "1"} if resource else {})}
    runtime = {"resources": {"instanceType": "datumcloud/d1-custom", "requests": amounts}, "sandbox": sandbox}
    placement = {"name": "us", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"runtime": runtime, "networkInterfaces": [{"network": "default"}]},
    }
    return {
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload", "metadata": {"name": name},
        "spec": {"template": template, "placements": [placement]},
    }  # fmt: skip


class Story:
    """One trial on one machine."""

    def __init__(self, machine: Machine, rows: Rows) -> None:
        self.machine = machine
        self.rows = rows
        self.resource = ""

    def begin(self, package: Path) -> None:
        """Install, start, load the image."""
        rows, machine = self.rows, self.machine
        driver = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
        rows.add("driver", driver)
        rows.add("system", f"{os.uname().release}, {run('/usr/bin/python3', '--version').stdout}")
        rows.judge("package", f"{package.stat().st_size / 1e6:.1f} MB", "≤ 65 MB", good=package.stat().st_size <= 65e6)
        missing = machine.install(package)
        rows.add(
            "the package installs",
            f"yes, past missing packages: {missing}" if missing else "yes, with its dependencies",
        )
        rows.add("tarmac up → node Ready", f"{machine.start():.1f} s")
        machine.until(self._offered, 60, "the node offers a GPU")
        rows.add("resource", self.resource)
        condition = '{.status.conditions[?(@.type=="GPUsSandboxable")].message}'
        rows.add("GPUsSandboxable", machine.field("node", NODE, condition))
        archive = DATA / "image.tar"
        began = time.monotonic()
        files = image.write_image(archive, _PROGRAM)
        output = machine.tarmac("image", "load", str(archive), f"--data-dir={DATA}")
        rows.add("image of this machine's files", f"{files} files, {time.monotonic() - began:.0f} s: {output[-120:]}")
        archive.unlink()

    def _offered(self) -> bool:
        amounts = self.machine.allocatable()
        self.resource = next((name for name, number in amounts.items() if "/nvidia-" in name and number != "0"), "")
        return bool(self.resource)

    def one_gpu(self) -> str:
        """Run a Workload with a GPU; return its pod."""
        machine, rows = self.machine, self.rows
        began = time.monotonic()
        applied = machine.apply(workload("first", self.resource))
        if applied.returncode:
            raise TrialFailed(applied.stderr)
        pod, output = "", ""
        while not output:
            pod = pod or machine.instance("first")
            output = machine.inside(pod, "nvidia-smi", "-L", timeout=20) if pod else ""
            if time.monotonic() - began > 120:
                raise TrialFailed(f"not within 120 s: nvidia-smi answers in a pod\n{machine.last_words()}")
        passed = time.monotonic() - began
        rows.judge(
            "apply → nvidia-smi -L answers inside", f"{passed:.2f} s", f"≤ {ANSWER_BAR} s", good=passed <= ANSWER_BAR
        )
        rows.show("nvidia-smi -L inside", true="GPU 0" in output, found=output)
        rows.add("kernel inside", machine.inside(pod, "cat", "/proc/version"))
        status = machine.field("pod", pod, "{.status.containerStatuses[0].allocatedResourcesStatus}")
        rows.show("allocatedResourcesStatus names the GPU", true="GPU-" in status, found=status)
        rows.add("RuntimeClass", machine.field("pod", pod, "{.spec.runtimeClassName}"))
        rss = machine.resident("tarmac.apps.deviceplugin")
        rows.judge("device plugin, resident", f"{rss:.1f} MB", f"≤ {PLUGIN_BAR:.0f} MB", good=0 < rss <= PLUGIN_BAR)
        return pod

    def figures(self) -> None:
        """The sampling program answers, the kernel log can be read, and the metrics have its figures."""
        rows, deadline = self.rows, time.monotonic() + 40
        while "tarmac_gpu_memory_bytes" not in (text := self._metrics()) and time.monotonic() < deadline:
            time.sleep(0.5)
        seen = [line for line in text.splitlines() if line.startswith("tarmac_gpu_memory_bytes")]
        rows.show("figures of NVML in the node's metrics", true=bool(seen), found=f"{len(seen)} lines of memory")
        reasons = self.machine.kubectl("get", "events", "-A", "-o", "jsonpath={.items[*].reason}").stdout
        failures = [each for each in ("NvmlUnavailable", "XidsUnavailable") if each in reasons]
        rows.show("neither NvmlUnavailable nor XidsUnavailable", true=not failures, found=", ".join(failures))
        environment = {**os.environ, "PYTHONPATH": LIBRARIES}
        rows.add("one sample by NVML", run("/usr/bin/python3", "-c", _SAMPLE, environment=environment).stdout)

    def _metrics(self) -> str:
        return self.machine.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/metrics").stdout

    def measure(self, pod: str) -> None:
        """Run the same program outside and inside, in turns: a drifting clock or temperature affects both."""
        environment = {name: value for name, value in os.environ.items() if name not in _CLEANED}
        outside, inside = list[dict[str, Any]](), list[dict[str, Any]]()
        for _ in range(ROUNDS):
            outside.append(_figures(run(image.PYTHON, str(_PROGRAM), environment=environment)))
            words = ("exec", pod, "--", image.PYTHON, "/opt/trial/program.py")
            inside.append(_figures(self.machine.kubectl(*words, timeout=240)))
        for name, what, unit, bar, sign in (
            ("matrix", "bf16 matrix product 8192³", "TFLOP/s", 0.97, 1),
            ("copy", "host → device, pinned", "GB/s", 0.95, 1),
            ("launch", "kernel launch and wait", "µs", 1.1, -1),
        ):
            within, without = ([each[name] for each in rounds if each.get(name)] for rounds in (inside, outside))
            if len(within) < ROUNDS or len(without) < ROUNDS:
                errors = " ".join(each["error"] for each in (*inside, *outside) if "error" in each)
                self.rows.show(what, true=False, found=f"inside {within}, outside {without}: {errors[:600]}")
                continue
            ratio = statistics.median(within) / statistics.median(without)
            good = ratio >= bar if sign > 0 else ratio <= bar
            found = f"inside {_spread(within)}, outside {_spread(without)} {unit}: {ratio:.3f}"
            self.rows.judge(what, found, f"{'≥' if sign > 0 else '≤'} {bar}", good=good)

    def refusals(self) -> None:
        """Containers without a GPU have no access to it, and a wrong class is rejected."""
        machine, rows = self.machine, self.rows
        refused = machine.apply(workload("wrong", self.resource, **{"compute.datumapis.com/runtime-class": "gvisor"}))
        rows.show("a Workload that names gvisor is refused", true=refused.returncode != 0, found=refused.stderr)
        machine.apply(_plain_pod())
        ready = '{.status.conditions[?(@.type=="Ready")].status}'
        machine.until(lambda: machine.field("pod", "plain", ready) == "True", 60, "a pod without a GPU is Ready")
        command = 'ls /dev/nvidia* /usr/local/nvidia /proc/driver/nvidia 2>/dev/null; echo "found nothing else"'
        output = machine.inside("plain", "sh", "-c", command).strip()
        rows.show(
            "a pod with NVIDIA_VISIBLE_DEVICES=all and no request", true=output == "found nothing else", found=output
        )
        machine.kubectl("delete", "pod", "plain", "--grace-period=1")


def _spread(found: list[float]) -> str:
    return f"{statistics.median(found):.1f} ({min(found):.1f} to {max(found):.1f})"


def _figures(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    for line in done.stdout.splitlines():
        if line.startswith("FIGURES "):
            return json.loads(line.removeprefix("FIGURES "))
    return {"error": (done.stderr or done.stdout)[-400:]}


def _plain_pod() -> dict[str, Any]:
    variables = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    container = {"name": "main", "image": image.NAME, "env": variables, "command": ["sleep", "infinity"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": {"containers": [container]}}
