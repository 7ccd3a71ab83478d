"""QEMU accepts the queues of a tap from the driver, with vhost-net if the kernel has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise

import pytest

from tarmac.runtimes.qemu.commandline import PROGRAM, command_line
from tarmac.runtimes.qemu.machine import Accelerator, MachineDescription
from tarmac.runtimes.qemu.nics import open_interface
from tarmac.runtimes.qemu.vhost import DEVICE
from tests.datapath.conftest import ON_A_KERNEL, real_world
from tests.datapath.test_datapath_contract import A6, NET, PLAIN, A
from tests.datapath.worlds import World, nic, one_network

pytestmark = [*ON_A_KERNEL, pytest.mark.timeout(60)]

PROCESSORS = 4
_ASK = ("qmp_capabilities", {}), ("human-monitor-command", {"command-line": "info network"}), ("quit", {})


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A node with a machine of one interface."""
    made = real_world()
    try:
        await made.node(1).apply(one_network(PLAIN))
        await made.node(1).attach_taps("vm", [nic(NET, f"{A}/20", f"{A6}/64")])
        yield made
    finally:
        await made.close()


async def networks_of(options: Sequence[str], descriptors: Sequence[int]) -> str:
    """Start QEMU without a guest, and return the network devices that its monitor lists."""
    bare = ["-nodefaults", "-M", "q35", "-S", "-display", "none", "-qmp", "stdio"]
    process = await asyncio.create_subprocess_exec(
        PROGRAM, *bare, *options, pass_fds=descriptors, stdin=-1, stdout=-1, stderr=-1
    )
    asked = "".join(json.dumps({"execute": name, "arguments": arguments}) for name, arguments in _ASK)
    said, complaints = await process.communicate(asked.encode())
    assert process.returncode == 0, complaints.decode()
    (answer,) = (each["return"] for each in map(json.loads, said.splitlines()) if isinstance(each.get("return"), str))
    return answer


async def queues_in_qemu(world: World, accelerator: Accelerator) -> tuple[int, int]:
    """Open the machine's interface as the driver does; return its queues in QEMU, and its vhosts."""
    node = world.node(1)
    with ExitStack() as files:
        further = partial(node.open_tap, "vm", 0, further=True)
        tap = await node.open_tap("vm", 0)
        made = await open_interface("02:00:00:00:00:01", tap, further, files, accelerator, PROCESSORS)
        machine = MachineDescription(name="a", uuid="u", memory_mib=128, processors=4, disks=(), interfaces=(made,))
        words = command_line(machine, accelerator)
        options = [
            word
            for name, value in pairwise(words)
            if name == "-netdev" or (name == "-device" and value.startswith("virtio-net"))
            for word in (name, value)
        ]
        shown = await networks_of(options, [*made.queues, *made.vhosts])
    return shown.count("type=tap"), len(made.vhosts)


async def test_without_vhost_qemu_has_one_queue(world: World) -> None:
    assert await queues_in_qemu(world, "tcg") == (1, 0)


@pytest.mark.skipif(not DEVICE.exists(), reason=f"NOT RUN: this kernel has no {DEVICE} (modprobe vhost_net)")
async def test_with_vhost_qemu_has_a_queue_for_each_processor(world: World) -> None:
    assert await queues_in_qemu(world, "kvm") == (PROCESSORS, PROCESSORS)


async def test_qemu_takes_further_queues_of_the_tap(world: World) -> None:
    node = world.node(1)
    with await node.open_tap("vm", 0) as first, await node.open_tap("vm", 0, further=True) as second:
        numbers = [first.fileno(), second.fileno()]
        netdev = f"tap,id=net0,fds={':'.join(map(str, numbers))},vhost=off"
        device = "virtio-net-pci,netdev=net0,mq=on,vectors=6,romfile="
        shown = await networks_of(["-netdev", netdev, "-device", device], numbers)
    assert shown.count("type=tap") == len(numbers)
