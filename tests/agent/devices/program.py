"""The tests' plugin as a process: `python -m tests.agent.devices.program FOLDER RESOURCE`, until it is killed.

It follows the protocol: when the agent's socket is recreated, or its own is gone, it listens and registers again.
With a third argument, `refuse`, it fails each allocation.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import grpc.aio

from tarmac.agent.devices._generated import deviceplugin_subset_pb2 as pb
from tests.agent.devices.plugin import DevicePlugin, usual_answer


def without_cdi(ids: list[str]) -> pb.ContainerAllocateResponse:
    """Return the usual response without CDI names, since the runtime has no CDI specification of these devices."""
    answer = usual_answer(ids)
    answer.ClearField("cdi_devices")
    return answer


def refused(ids: list[str]) -> pb.ContainerAllocateResponse:
    """Fail the call."""
    raise RuntimeError(f"no {ids}")


async def main(folder: Path, resource: str, *, refuse: bool = False) -> None:
    """Offer two devices until the process is killed."""
    known: tuple[int, int] | None = None
    plugin: DevicePlugin | None = None
    while True:
        agent, own = folder / "kubelet.sock", folder / f"{resource.rpartition('/')[2]}.sock"
        if agent.exists():
            found = agent.stat()
            now = (found.st_ino, found.st_ctime_ns)
            if known != now or not own.exists():
                if plugin is not None:
                    await plugin.stop()
                own.unlink(missing_ok=True)
                plugin = DevicePlugin(folder, resource, own.name)
                plugin.devices = {"Dev-1": "Healthy", "Dev-2": "Healthy"}
                plugin.answer = refused if refuse else without_cdi
                await plugin.start()
                try:
                    await plugin.register()
                    known = now
                except grpc.aio.AioRpcError:
                    known = None
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], refuse="refuse" in sys.argv[3:]))
