"""A machine with NVIDIA's driver, as far as that is possible without a GPU.

Real are the agent, containerd, runc, gVisor with nvproxy, the device plugin and NVML's calls; the kernel's pages and
log, the device nodes (of numbers that no driver serves) and the driver's files stand in. gVisor is told the driver's
version, since it would ask `/dev/nvidiactl` for it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tarmac.base.randomness import Randomness
from tarmac.runtimes.parts import find_parts, parts_folder
from tests.agent.devices.nvidia.fakedriver import H200, NVML, VERSION, FakeDriver
from tests.datapath.lab import Lab
from tests.machines.boxes import Box, Started, until
from tests.support.kubectl import kubectl_path

GPU = "datumcloud.com/nvidia-h200"
CITY = "DFW"
NODE = "dfw-0"
# Before the machine's own mounts. /dev is its own, so that no other test sees these nodes.
_BOOT = """
set -e
mkdir -p "$1/dev"
mount -t tmpfs tmpfs "$1/dev"
for each in /dev/*; do
  own="$1$each"
  if [ -L "$each" ]; then cp -P "$each" "$own"
  elif [ -d "$each" ]; then mkdir "$own" && mount --rbind "$each" "$own"
  else touch "$own" && mount --bind "$each" "$own"; fi
done
mknod -m 666 "$1/dev/nvidiactl" c 195 255
mknod -m 666 "$1/dev/nvidia-uvm" c 510 0
touch "$1/dev/kmsg" && mount --bind "$2/dev/kmsg" "$1/dev/kmsg"
for minor in $3; do mknod -m 666 "$1/dev/nvidia$minor" c 195 "$minor"; done
mount --rbind "$1/dev" /dev
mount -t tmpfs tmpfs /proc/driver
mkdir /proc/driver/nvidia
mount --bind "$2/proc/driver/nvidia" /proc/driver/nvidia
shift 3
exec "$@"
"""


class GpuBox(Box):
    """A machine with GPUs."""

    def __init__(self, folder: Path, lab: Lab, number: int, gpus: int) -> None:
        self.driver = FakeDriver(folder / "driver", *[H200] * gpus, nvml=NVML)
        self._parts = folder / "parts"
        # On a real disk, as overlays of overlays cannot be mounted. The name is that of its cgroups, which boxes share.
        self.data_dir = f"/var/lib/tarmac/{Randomness().suffix(6)}"
        super().__init__(folder, lab, number, "gpus")

    def boot_command(self) -> list[str]:
        """Include device nodes and pages of the driver that no other machine sees."""
        minors = " ".join(str(gpu.minor) for gpu in self.driver.gpus)
        driver = str(self.driver.root)
        return ["sh", "-c", _BOOT, "sh", str(self._folder), driver, minors, *super().boot_command()]

    def prepare(self) -> None:
        """Put the driver's files where NVIDIA's container images have them, and set gVisor's driver version."""
        super().prepare()
        target = self.path("/usr/local/nvidia")
        shutil.copytree(self.driver.root / "usr/lib/x86_64-linux-gnu", target / "lib64", symlinks=True)
        (target / "bin").mkdir()
        smi = target / "bin/nvidia-smi"
        smi.write_text(f'#!/bin/sh\necho "GPU 0: {H200} (UUID: $NVIDIA_VISIBLE_DEVICES)"\n')
        smi.chmod(0o755)
        self._own_parts()

    def _own_parts(self) -> None:
        runsc, own = find_parts().runsc, self._parts / "bin"
        assert runsc is not None, "there is no gVisor on this machine: GPUs in sandboxes are NOT tested here"
        own.mkdir(parents=True)
        for each in parts_folder().iterdir():
            if each.name != "bin":
                (self._parts / each.name).symlink_to(each.resolve())
        for each in (parts_folder() / "bin").iterdir():
            if each.name != "runsc":
                (own / each.name).symlink_to(each.resolve())
        (own / "runsc").write_text(f'#!/bin/sh\nexec {runsc.resolve()} --nvproxy-driver-version={VERSION} "$@"\n')
        (own / "runsc").chmod(0o755)

    def environment(self) -> dict[str, str]:
        """Include the parts of this machine."""
        return {**super().environment(), "TARMAC_NODE_PARTS": str(self._parts)}

    def up(self, *flags: str) -> Started:
        """Run one city until its node offers every GPU."""
        words = (f"--data-dir={self.data_dir}", "--runtime=containerd", f"--cities={CITY}", "--no-kubeconfig", *flags)
        started = self.start("up", *words)
        started.until_said("tarmac ready", 120)
        until(lambda: self.offered() == len(self.driver.gpus), 60)
        return started

    def down(self) -> None:
        """Remove everything; a failure fails the test."""
        done = self.run("down", f"--data-dir={self.data_dir}", timeout=180)
        assert done.returncode == 0, f"tarmac down left something: {done.stderr}"

    def offered(self) -> int:
        """Return the number of GPUs that the node has to give; 0 while it offers none."""
        return int(self.get("node", NODE)["status"].get("allocatable", {}).get(GPU, 0))

    def client(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl on this machine."""
        command = self.command(kubectl_path(), f"--kubeconfig={self.data_dir}/kubeconfig", *words)
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=90, check=False)

    def get(self, *words: str) -> dict[str, Any]:
        """Return an object; its failure fails the test."""
        done = self.client("get", *words, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def apply(self, *objects: dict[str, Any]) -> str:
        """Apply manifests; return the refusal, or an empty string."""
        body = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        done = self.client("apply", "-f", "-", stdin=body)
        return done.stderr if done.returncode else ""

    def inside(self, pod: str, script: str, container: str = "main") -> str:
        """Return the output of a script in a pod."""
        done = self.client("exec", pod, "-c", container, "--", "sh", "-c", script)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def wait_ready(self, *pods: str) -> None:
        """Wait for pods; when they do not come, the error has the events."""
        done = self.client("wait", *(f"pod/{each}" for each in pods), "--for=condition=Ready", "--timeout=80s")
        assert done.returncode == 0, f"{done.stderr}\n{self.client('get', 'pods,events').stdout}"


@contextmanager
def gpu_box(folder: Path, gpus: int = 1) -> Generator[GpuBox]:
    """A machine that runs one city with GPUs; always removed afterwards."""
    lab = Lab()
    try:
        box = GpuBox(folder, lab, 1, gpus)
        try:
            box.up()
            yield box
            box.down()
        finally:
            box.close()
    finally:
        lab.close()
