"""The agent's own metrics, under the names that kubelet and Prometheus' clients use."""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tarmac import __version__
from tarmac.agent.stats.hostusage import file_system
from tarmac.agent.stats.summary import UNLABELLED, Sample
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock

_PAGE = os.sysconf("SC_PAGE_SIZE")


def process_metrics() -> Iterator[Sample]:
    """Yield metrics of this process."""
    yield "tarmac_build_info", "gauge", {"version": __version__}, 1
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    yield "process_cpu_seconds_total", "counter", UNLABELLED, used.ru_utime + used.ru_stime
    yield "process_resident_memory_bytes", "gauge", UNLABELLED, pages * _PAGE
    yield "process_open_fds", "gauge", UNLABELLED, len(os.listdir("/proc/self/fd"))


def pod_metrics(node_name: str, pods: Callable[[], Sequence[JsonObject]]) -> Callable[[], Iterator[Sample]]:
    """Return a source of pod and container counts by state."""

    def source() -> Iterator[Sample]:
        running, states = 0, Counter[str]()
        for pod in pods():
            status = pod.get("status") or {}
            running += status.get("phase") == "Running"
            for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
                states.update(list(container.get("state") or ()))
        yield "kubelet_node_name", "gauge", {"node": node_name}, 1
        yield "kubelet_running_pods", "gauge", UNLABELLED, running
        for state, name in (("running", "running"), ("terminated", "exited"), ("waiting", "created")):
            yield "kubelet_running_containers", "gauge", {"container_state": name}, states[state]

    return source


def disk_metrics(root: Path) -> Callable[[], Iterator[Sample]]:
    """Return a source for the disk of the agent; a missing file system yields nothing."""

    def source() -> Iterator[Sample]:
        with suppress(OSError):
            yield "tarmac_disk_available_bytes", "gauge", {"name": "agent"}, file_system(root).available

    return source


def certificate_metrics(ends: Callable[[], float | None], clock: Clock) -> Callable[[], Iterator[Sample]]:
    """Return a source for the node's client certificate, if it is renewed here."""

    def source() -> Iterator[Sample]:
        if (end := ends()) is not None:
            left = end - clock.now()
            yield "tarmac_certificate_expiry_seconds", "gauge", {"name": "node"}, left

    return source
