"""Keys reach a guest, and its output is delivered once, with any number of sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tarmac.runtimes.interface import ConsoleOptions, RuntimeFault, WrongState
from tarmac.runtimes.qemu import supervisor
from tarmac.runtimes.qemu.monitor import Monitor
from tarmac.runtimes.qemu.qmp import Command
from tarmac.wire.channels import Channel
from tests.runtimes.machine import QemuMachine
from tests.runtimes.test_streams import Listener

pytestmark = [pytest.mark.root]

TYPING = ConsoleOptions(user="jane", session="s", keyboard=True)


async def heard(listener: Listener, text: bytes) -> None:
    async with asyncio.timeout(20):
        while text not in listener.heard.get(Channel.STDOUT, b""):
            await asyncio.sleep(0.02)


async def test_typed_keys_reach_the_guest_and_are_echoed(qemu: QemuMachine) -> None:
    running = await qemu.run(qemu.node.machine("echoes"))
    await running.log("hello")
    listener = Listener(await qemu.runtime.console_stream(running.id, TYPING))
    listener.stream.begin()
    await heard(listener, b"hello")
    listener.stream.write(b"typed by jane")
    await heard(listener, b"typed by jane")
    listener.stream.close()


async def test_no_byte_of_a_guest_is_lost_or_doubled_while_somebody_has_the_keyboard(qemu: QemuMachine) -> None:
    running = await qemu.run(qemu.node.machine("counts", "hello"))
    raw = qemu.node.folders.serial(qemu.qemu.machines.known(running.id))
    stream = await qemu.runtime.console_stream(running.id, TYPING)
    Listener(stream)  # reads nothing: it never starts
    stream.write(b"k" * 100)
    async with asyncio.timeout(30):
        while raw.stat().st_size < 100_000:
            await asyncio.sleep(0.05)
    written = raw.read_bytes().partition(b"hello\r\n")[2]
    first = written[0]
    assert written == bytes((first + index) % 256 for index in range(len(written)))


async def test_buttons_do_what_they_say_and_twice_is_as_once(qemu: QemuMachine) -> None:
    running = await qemu.run(qemu.waits())
    await running.log("hello")
    for _ in range(2):
        await qemu.runtime.power(running.id, "Pause")
    async with asyncio.timeout(5):
        while (await running.now()).reason != "MachinePaused":
            await asyncio.sleep(0.02)
    with pytest.raises(WrongState, match="paused"):
        await qemu.runtime.power(running.id, "Reboot")
    for _ in range(2):
        await qemu.runtime.power(running.id, "Resume")
    async with asyncio.timeout(5):
        while (await running.now()).reason:
            await asyncio.sleep(0.02)
    await qemu.runtime.power(running.id, "Reboot")
    async with asyncio.timeout(10):
        while (await running.now()).state != "exited":
            await asyncio.sleep(0.02)
    assert (await running.now()).reason == "Completed"
    with pytest.raises(RuntimeFault):
        await qemu.runtime.power(running.id, "Reset")


async def test_a_machine_that_a_full_disk_stopped_goes_on_once_there_is_room(
    qemu: QemuMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    room: list[bool] = [False]
    monkeypatch.setattr(supervisor, "_POLL_INTERVAL", 0.2)
    monkeypatch.setattr(supervisor.MachineSupervisor, "_has_room", lambda _: room[0])
    running = await qemu.run(qemu.waits())
    await running.log("hello")
    machine = qemu.qemu.machines.supervisor(running.id)
    # As QEMU reports a full disk of the host. It stops the machine then, and reports the state on request.
    real = Monitor.execute

    async def full(monitor: Monitor, command: Command, *more: Any) -> Any:
        answer = await real(monitor, command, *more)
        stopped = command == "query-status" and answer["status"] == "paused"
        return {"status": "io-error"} if stopped else answer

    monkeypatch.setattr(Monitor, "execute", full)
    await machine.execute("stop")
    async with asyncio.timeout(5):
        while (await running.now()).reason != "DiskFull":
            await asyncio.sleep(0.02)
    room[0] = True
    async with asyncio.timeout(5):
        while (await running.now()).reason:
            await asyncio.sleep(0.02)
    assert machine.status == "running"
