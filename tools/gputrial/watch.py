"""Watches during the whole trial how many sandboxes have each GPU, by gVisor's own list of containers.

It uses neither Tarmac nor containerd: a running container that either has lost counts, too.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

INTERVAL: Final = 0.2
_GPU: Final = re.compile(r"/dev/nvidia\d+$")
_TIMEOUT: Final = 20.0


class HolderWatch:
    """Samples until `stop`. `most` is the highest number of containers with one GPU at a time."""

    def __init__(self, runsc: Path) -> None:
        self.samples = 0
        self.most = 0
        self.twice: list[str] = []
        self._runsc = runsc
        self._roots: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start."""
        self._thread.start()

    def stop(self) -> None:
        """End after the current sample."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_TIMEOUT)

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL):
            self._roots |= roots_of_sandboxes()
            self.count(container for root in self._roots for container in self._listed(root))

    def count(self, containers: Iterable[dict[str, Any]]) -> None:
        """Add one sample of the state of all containers."""
        running = [each for each in containers if each.get("status") == "running"]
        held = Counter(gpu for each in running for gpu in gpus_of(Path(each["bundle"])))
        self.samples += bool(held)
        self.most = max(self.most, *held.values(), 0)
        self.twice += [f"{gpu} at {time.strftime('%H:%M:%S')}" for gpu, number in held.items() if number > 1]

    def _listed(self, root: str) -> list[dict[str, Any]]:
        command = [str(self._runsc), f"--root={root}", "list", "--format=json"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
            return json.loads(done.stdout or "null") or []
        except (subprocess.TimeoutExpired, ValueError):
            return []


def roots_of_sandboxes() -> set[str]:
    """Return the `--root` of every sandbox with a GPU on this machine."""
    found: set[str] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it has just ended
            if words[0].endswith("runsc-sandbox") and any(word.startswith("--nvproxy") for word in words):
                found |= {word.removeprefix("--root=") for word in words if word.startswith("--root=")}
    return found


def gpus_of(bundle: Path) -> list[str]:
    """Return the device nodes of GPUs in a container's configuration; none if it is gone."""
    try:
        devices = json.loads((bundle / "config.json").read_bytes()).get("linux", {}).get("devices") or []
    except (OSError, ValueError):
        return []
    return [each["path"] for each in devices if _GPU.match(each.get("path", ""))]
