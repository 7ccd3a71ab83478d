"""Consoles of simulated machines, in virtual time: the boot log, a shell behind the login, power actions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.apps.up import NODES
from tarmac.base.tasks import Tasks
from tarmac.runtimes.interface import (
    CommandStream,
    ConsoleOptions,
    NotOffered,
    RuntimeObjectNotFound,
    SessionOptions,
    WrongState,
)
from tarmac.sim.sessions.api import SimulatedNodeApi
from tarmac.sim.sessions.simulatedconsoles import SimulatedMachines
from tarmac.wire.channels import Channel
from tests.sim.stage import Stage, play


class Viewer:
    """A client of a console."""

    def __init__(self, stream: CommandStream) -> None:
        self.seen = b""
        self.ended = False
        self.stream = stream
        stream.attach(self)
        stream.begin()

    def output(self, channel: Channel, data: bytes) -> None:
        if channel is Channel.STDOUT:
            self.seen += data

    def finish(self, channel: Channel) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def end(self) -> None:
        self.ended = True

    def hold(self, held: bool) -> None:
        """Do nothing."""


async def machine(stage: Stage, folder: Path) -> tuple[SimulatedMachines, str]:
    """The consoles of the planet, and the uid of a machine that boots."""
    await stage.place("vm", spec={"runtimeClassName": "vm"})
    await stage.wait(3)
    api = SimulatedNodeApi(stage.fleet, stage.world.client("sessions", stage.world.link(NODES)), folder)
    return api.machines, (await stage.pod("vm"))["metadata"]["uid"]


def console(user: str = "ana") -> ConsoleOptions:
    return ConsoleOptions(user=user, session="s", keyboard=True)


def test_a_console_shows_the_boot_and_offers_a_shell(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        machines, uid = await machine(stage, tmp_path)
        viewer = Viewer(await machines.console_stream(uid, console()))
        await stage.wait(1)
        assert b"Linux version" in viewer.seen
        assert b"login:" not in viewer.seen
        await stage.wait(10)
        assert viewer.seen.endswith(b"\r\nvm login: ")
        for keys in (b"root\r", b"hostname\r", b"\x04"):
            viewer.stream.write(keys)
            await stage.wait(1)
        assert viewer.seen.endswith(b"/ # hostname\r\nvm\r\n/ # \r\nvm login: ")
        await machines.power(uid, "Reset")
        await stage.wait(12)
        assert viewer.seen.count(b"Linux version") == 2
        assert viewer.seen.endswith(b"\r\nvm login: ")
        await stage.pods.delete("vm", "default")
        await stage.wait(5)
        assert viewer.ended
        with pytest.raises(RuntimeObjectNotFound):
            await machines.console_stream(uid, console())

    play(story)


def test_unsimulated_features_are_refused_by_name(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        machines, uid = await machine(stage, tmp_path)
        with pytest.raises(NotOffered, match="no screen"):
            await machines.display_stream(uid, SessionOptions(user="ana", session="s", keyboard=True))
        with pytest.raises(NotOffered, match="Pause"):
            await machines.power(uid, "Pause")
        stage.fleet.die("dfw-0")
        with pytest.raises((RuntimeObjectNotFound, WrongState)):
            await machines.power(uid, "Reboot")

    play(story)


def test_the_last_session_takes_its_guest_along(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        machines, uid = await machine(stage, tmp_path)
        await stage.wait(12)
        tasks: Tasks = machines.tasks
        viewer = Viewer(await machines.console_stream(uid, console()))
        await stage.wait(2)
        assert len(tasks) > 0
        viewer.stream.close()
        await stage.wait(2)
        assert len(tasks) == 0

    play(story)
