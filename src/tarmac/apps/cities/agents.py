"""Runs an agent as a process in its city's network namespace.

It is a child that is stopped when its parent shuts down, but survives when its parent is killed: an agent without its
server continues to manage its pods until the next `up` replaces it. Pods keep running in every case.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from tarmac.apps.cities.layout import CityLayout
from tarmac.apps.processes import RESTART_DELAY, ended, find_processes, last_words, start, stop
from tarmac.base.log import log
from tarmac.runtimes.parts import NodeParts

_log = log("cities")


def command(city: CityLayout, parts: NodeParts, oversubscribed: int, more: Sequence[str] = ()) -> list[str]:
    """Return the agent's command line. `more` comes last: of repeated flags the last one counts."""
    program = [sys.executable, "-m", "tarmac.apps.main", "agent"]
    settings = city.containerd(parts)
    flags = {
        "kubeconfig": city.kubeconfig,
        "node-name": city.node,
        "location": city.name,
        "node-ip": ",".join(city.host.addresses),
        "root-dir": city.agent,
        "run-dir": city.run / "agent",
        "pod-logs-dir": city.data / "logs",
        "container-runtime-endpoint": settings.endpoint,
        "cni-bin-dir": settings.cni_bin,
        "cni-conf-dir": settings.cni_conf,
        "registry-hosts-dir": settings.certs,
        "device-plugin-dir": city.run / "devices",
        "cgroup-root": city.cgroup,
        "network": "tarmac",
        "cpu-over-subscription-capacity": oversubscribed,
    }
    return [
        "nsenter",
        f"--net={city.host.namespace}",
        *program,
        *(f"--{name}={value}" for name, value in flags.items()),
        *more,
    ]


def agents_of(data_dir: Path) -> list[int]:
    """Return the agents of a data directory, found by their root directory, regardless of their parent."""
    wanted = f"--root-dir={data_dir / 'cities'}/"
    return find_processes(lambda words: "agent" in words and any(word.startswith(wanted) for word in words))


async def keep_running(city: CityLayout, arguments: Sequence[str]) -> None:
    """Run the agent and restart it when it ends, until cancelled; then stop it and wait."""
    while True:
        process = await start(arguments, city.log)
        try:
            code = await ended(process, city.log)
        except asyncio.CancelledError:
            await stop(process)
            raise
        _log.warning("agent ended, restarting", city=city.name, code=code, output=last_words(city.log))
        await asyncio.sleep(RESTART_DELAY)
