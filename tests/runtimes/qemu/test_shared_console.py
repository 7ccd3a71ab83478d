"""Several sessions at a real machine: the same bytes for all, and a stuck session does not stop the guest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tarmac.cli.machines.screenshot import Screenshot
from tarmac.runtimes.interface import ConsoleOptions, SessionOptions, TooManyStreams
from tests.runtimes.consoles.people import Person
from tests.runtimes.machine import QemuMachine

pytestmark = [pytest.mark.root]


def options(user: str, *, keyboard: bool = False) -> ConsoleOptions:
    return ConsoleOptions(user=user, session=user, keyboard=keyboard)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.02)


async def test_two_watchers_and_a_writer_see_the_same_bytes(qemu: QemuMachine) -> None:
    running = await qemu.run(qemu.node.machine("echoes"))
    await running.log("hello")
    writer = Person(await qemu.runtime.console_stream(running.id, options("ann", keyboard=True)))
    watchers = [Person(await qemu.runtime.console_stream(running.id, options(name))) for name in ("bob", "eve")]
    writer.stream.write(b"typed by ann")
    watchers[0].stream.write(b"not by bob")
    await until(lambda: all(each.output_seen.endswith(b"typed by ann") for each in (writer, *watchers)))
    assert watchers[0].output_seen == watchers[1].output_seen == writer.output_seen
    back = ConsoleOptions(user="ann", session="again", keyboard=False, since=(0, len(writer.output_seen) - 6))
    again = Person(await qemu.runtime.console_stream(running.id, back))
    assert again.output_seen == b"by ann"


async def test_a_guest_that_floods_goes_on_while_everybody_is_stuck(qemu: QemuMachine) -> None:
    running = await qemu.run(qemu.node.machine("counts", "hello"))
    raw = qemu.node.folders.serial(qemu.qemu.machines.known(running.id))
    people = [Person(await qemu.runtime.console_stream(running.id, options(f"u{n}", keyboard=True))) for n in range(16)]
    with pytest.raises(TooManyStreams):
        await qemu.runtime.console_stream(running.id, options("late"))
    for each in people:
        each.stream.read(False)
    stuck_at, begun = [len(each.output_seen) for each in people], raw.stat().st_size
    await until(lambda: raw.stat().st_size > begun + 400_000)
    assert [len(each.output_seen) for each in people] == stuck_at
    people[3].stream.read(True)
    assert any("gap" in notice for notice in people[3].notices)  # it was away for longer than the buffer lasts
    people[3].stream.read(False)
    offset = next(notice["offset"] for notice in people[3].notices if "gap" in notice)
    seen = people[3].output_seen[stuck_at[3] :]
    assert seen[:1000] == bytes((seen[0] + index) % 256 for index in range(1000))
    assert offset >= begun


async def test_the_screen_is_shown_to_everybody_who_asks(qemu: QemuMachine) -> None:
    running = await qemu.run(qemu.waits())
    await running.log("hello")
    for viewer in range(2):
        asked = SessionOptions(user=f"u{viewer}", session="s", keyboard=False)
        person = Person(await qemu.runtime.display_stream(running.id, asked))
        picture, taken = Screenshot(), 0
        async with asyncio.timeout(20):
            while not picture.done:
                if len(person.output_seen) > taken:
                    piece, taken = person.output_seen[taken:], len(person.output_seen)
                    person.stream.write(picture.receive(piece))
                await asyncio.sleep(0.005)
        assert picture.width >= 640
        assert len(set(picture.png())) > 100  # the firmware has drawn text
