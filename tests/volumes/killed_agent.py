"""Agents that kill themselves: `python -m tests.volumes.killed_agent ROOT SEED`, then a number per line.

Each number runs an agent that mounts, refreshes and unmounts volumes of every kind, and is killed just before the
change of that number: a file made, linked or renamed, a device configured, a tool started. The program prints `killed`
and the change, or `ended` and the number of changes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from tests.volumes.bench import Bench, claim, pod

_DEEDS = frozenset(
    (
        "open", "fcntl.ioctl", "subprocess.Popen", "os.mkdir", "os.rename", "os.link", "os.symlink", "os.chmod",
        "os.remove", "os.rmdir", "os.truncate", "os.chown",
    )
)  # fmt: skip


def filled(root: str, seed: str) -> Bench:
    """Return a bench with objects for every kind of volume; the disk `seeded` starts with the files of a folder."""
    bench = Bench(root, real=True)
    bench.add_config_map("settings", colour="red")
    bench.add_secret("keys", key=b"1")
    bench.add_disk("plain", "16Mi")
    bench.add_disk("seeded", "16Mi")
    bench.add_disk("block", "4Mi", mode="Block")
    bench.sources.images["seed"] = seed
    note = {"compute.datumapis.com/populate-from-image": "seed"}
    bench.sources.claims["default/seeded"]["metadata"]["annotations"] = note
    return bench


async def _work(bench: Bench) -> None:
    await bench.volumes.start()
    everything = (
        {"name": "scratch", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {**claim("plain"), "name": "plain"},
        {**claim("seeded"), "name": "seeded"},
        {**claim("block"), "name": "block"},
    )
    for uid in ("pod-0", "pod-1"):
        mounted = await bench.volumes.mount(pod(*everything, uid=uid))
        await bench.volumes.subpath(mounted["scratch"], "some/where", uid, "main", 0)
        bench.add_secret("keys", key=uid.encode())
        await bench.volumes.refresh(pod(*everything, uid=uid))
    for uid in ("pod-0", "pod-1"):
        await bench.volumes.unmount(uid)
    for name in await bench.volumes.disks():
        await bench.volumes.remove_disk(name)


def _agent(root: str, seed: str, last: int, tell: int) -> None:
    deeds = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal deeds
        if event in _DEEDS and not (event == "open" and str(arguments[0]).startswith("/proc")):
            deeds += 1
            if deeds == last:
                os.write(tell, f"killed at {event}\n".encode())
                os.kill(os.getpid(), signal.SIGKILL)

    bench = filled(root, seed)
    sys.addaudithook(count)
    asyncio.run(_work(bench))
    os.write(tell, f"ended after {deeds}\n".encode())


if __name__ == "__main__":
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            _agent(sys.argv[1], sys.argv[2], int(line), 1)
            os._exit(0)
        os.waitpid(child, 0)
