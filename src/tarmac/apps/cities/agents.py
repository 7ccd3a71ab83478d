"""An agent as a process in its city's network namespace, kept running.

It is a child that ends with its parent's good-bye and not with its death: an agent whose server was killed goes on
looking after its pods, until the next `up` puts one of its own in its place. Pods live on in every case.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tarmac.apps.cities.places import City
from tarmac.base.log import log
from tarmac.runtimes.parts import Parts

_log = log("cities")
_STOP_SECONDS = 15.0
_PAUSE = 1.0


def command(city: City, parts: Parts, oversubscribed: int) -> list[str]:
    """The agent's command line."""
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
        "cgroup-root": city.cgroup,
        "network": "tarmac",
        "cpu-over-subscription-capacity": oversubscribed,
    }
    return [
        "nsenter",
        f"--net={city.host.namespace}",
        *program,
        *(f"--{name}={value}" for name, value in flags.items()),
    ]


def agents_of(data_dir: Path) -> list[int]:
    """The agents of a data directory, whoever started them: they were told a root directory in it."""
    wanted = f"--root-dir={data_dir / 'cities'}/"
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if "agent" in words and any(word.startswith(wanted) for word in words):
                    found.append(int(entry.name))
    return found


async def end(pids: Sequence[int]) -> None:
    """Ask agents that are nobody's children to stop, and insist."""
    loop = asyncio.get_running_loop()
    for pid in pids:
        _signal(pid, signal.SIGTERM)
    until = loop.time() + _STOP_SECONDS
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and loop.time() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.05)  # nobody tells us of their end
    for pid in pids:
        _signal(pid, signal.SIGKILL)


async def keep_running(city: City, arguments: Sequence[str]) -> None:
    """Run it, and again when it ends, until cancelled; then ask it to stop and wait."""
    while True:
        process = await _start(arguments, city.log)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _stop(process)
            raise
        _log.warning("the agent ended and is started again", city=city.name, code=code, says=last_words(city.log))
        await asyncio.sleep(_PAUSE)


def last_words(path: Path) -> str:
    """The last line of a log."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "nothing"


async def _start(arguments: Sequence[str], output: Path) -> asyncio.subprocess.Process:
    with output.open("ab") as log_file:
        return await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,  # an interrupt from the keyboard is for `up`, which then says good-bye in order
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
