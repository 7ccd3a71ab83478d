"""A stream to a command carries its output and exit code, on every runtime."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from tarmac.runtimes.interface import CommandStream, RuntimeFault, StreamOptions
from tarmac.wire.channels import Channel
from tests.runtimes.machine import Machine, RealMachine

_OUTPUTS = StreamOptions(stdin=False, stdout=True, stderr=True, tty=False)


class Listener:
    """A client that reads all output."""

    def __init__(self, stream: CommandStream) -> None:
        self.heard: dict[Channel, bytes] = {}
        self.ended = asyncio.Event()
        self.stream = stream
        stream.attach(self)

    def output(self, channel: Channel, data: bytes) -> None:
        self.heard[channel] = self.heard.get(channel, b"") + data

    def finish(self, channel: Channel) -> None:
        pass

    def flush(self) -> None:
        pass

    def end(self) -> None:
        self.ended.set()

    def hold(self, held: bool) -> None:
        pass

    async def outcome(self) -> Any:
        """Return the Status on the error channel, at the end of the stream."""
        async with asyncio.timeout(20):
            await self.ended.wait()
        self.stream.close()
        return json.loads(self.heard[Channel.ERROR])


async def listening(machine: Machine, id: str, command: Sequence[str], options: StreamOptions = _OUTPUTS) -> Listener:
    listener = Listener(await machine.runtime.exec_stream(id, command, options))
    listener.stream.begin()
    return listener


async def test_outputs_and_success_arrive(machine: Machine) -> None:
    machine.needs("exec")
    running = await machine.run(machine.waits())
    listener = await listening(machine, running.id, ["sh", "-c", "echo out; echo err >&2"])
    assert (await listener.outcome())["status"] == "Success"
    assert listener.heard[Channel.STDOUT] == b"out\n"
    assert listener.heard[Channel.STDERR] == b"err\n"


async def test_an_exit_code_is_told(machine: Machine) -> None:
    machine.needs("exec")
    running = await machine.run(machine.waits())
    outcome = await (await listening(machine, running.id, ["sh", "-c", "echo out; echo err >&2; exit 3"])).outcome()
    assert outcome["reason"] == "NonZeroExitCode"
    assert outcome["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_output_waits_until_the_client_is_ready(machine: Machine) -> None:
    machine.needs("exec")
    running = await machine.run(machine.waits())
    stream = await machine.runtime.exec_stream(running.id, ["sh", "-c", "echo out; echo err >&2"], _OUTPUTS)
    listener = Listener(stream)
    await asyncio.sleep(0)
    assert not listener.heard
    stream.begin()
    assert (await listener.outcome())["status"] == "Success"


async def test_an_output_that_was_not_asked_for_does_not_come(machine: Machine) -> None:
    machine.needs("exec")
    running = await machine.run(machine.waits())
    options = StreamOptions(stdin=False, stdout=True, stderr=False, tty=False)
    listener = await listening(machine, running.id, ["sh", "-c", "echo out; echo err >&2"], options)
    await listener.outcome()
    assert listener.heard.keys() == {Channel.STDOUT, Channel.ERROR}


async def test_leaving_an_attached_container_does_not_end_it(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    stream = await machine.runtime.attach_stream(running.id, _OUTPUTS)
    Listener(stream)
    stream.begin()
    stream.close()
    assert (await running.now()).state == "running"


async def test_a_stream_that_nobody_came_for_is_dropped(machine: Machine) -> None:
    machine.needs("exec")
    running = await machine.run(machine.waits())
    (await machine.runtime.exec_stream(running.id, ["sh", "-c", "echo out"], _OUTPUTS)).abort()
    assert (await running.now()).state == "running"


async def test_no_stream_leads_into_what_has_ended(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    await machine.runtime.stop_container(running.id, 5)
    with pytest.raises(RuntimeFault):
        await machine.runtime.exec_stream(running.id, ["true"], _OUTPUTS)
    with pytest.raises(RuntimeFault):
        await machine.runtime.attach_stream(running.id, _OUTPUTS)


async def test_standard_input_arrives_and_ends(real_machine: RealMachine) -> None:
    running = await real_machine.run(real_machine.waits())
    options = StreamOptions(stdin=True, stdout=True, stderr=False, tty=False)
    listener = await listening(real_machine, running.id, ["cat"], options)
    listener.stream.write(b"a line\n" * 10_000)
    listener.stream.finish_input()
    assert (await listener.outcome())["status"] == "Success"
    assert listener.heard[Channel.STDOUT] == b"a line\n" * 10_000
