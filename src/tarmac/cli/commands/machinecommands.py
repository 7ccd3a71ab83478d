"""The commands of virtual machines: `console`, `vnc`, `machine`; and the flags of `dashboard`."""

from __future__ import annotations

import argparse

from tarmac.cli.command import Command, CommandGroup, client_verb
from tarmac.cli.flags import add_connection_flags, add_output_flag, local_port


def _console_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("--watch", action="store_true", help="watch only, do not request the keyboard")
    command.add_argument("--takeover", action="store_true", help="take the keyboard from its holder")
    command.add_argument("--container", default="", metavar="NAME", help="of a sandbox (default: the first)")
    command.add_argument("--list", action="store_true", help="list recorded sessions instead")
    command.add_argument("--replay", default="", metavar="SESSION", help="show a recorded session instead")
    command.add_argument("--speed", type=_speed, default=1.0, metavar="N", help="replay speed; 0: at once (default: 1)")
    _add_instance(command)


def _vnc_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("--port", type=local_port, default=0, metavar="N", help="on 127.0.0.1 (default: a free one)")
    command.add_argument("--view", action="store_true", help="watch only: keys and pointer do nothing")
    command.add_argument("--browser", action="store_true", help="serve noVNC to this computer, and open it")
    command.add_argument("--screenshot", default="", metavar="FILE.png", help="write the current screen, and exit")
    _add_instance(command)


def _machine_flags(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action, what in (
        ("reboot", "shut it down and start it again"),
        ("reset", "reset it at once, like the reset button"),
        ("pause", "pause it"),
        ("resume", "resume it"),
        ("stop", "shut it down until it is started; its disks and addresses are kept"),
        ("start", "start it after a stop"),
    ):
        made = actions.add_parser(
            action, help=what, epilog="Exit codes: 0 done, 1 not found or refused, 2 the command line is wrong."
        )
        _add_instance(made)


def add_dashboard_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac dashboard`."""
    command.add_argument(
        "--port", type=local_port, default=None, metavar="N",
        help="on 127.0.0.1, that one or none; 0: any (default: 6480, or a free one)",
    )  # fmt: skip
    command.add_argument("--no-browser", dest="browser", action="store_false", help="print the address, open nothing")
    add_connection_flags(command)


def _add_instance(command: argparse.ArgumentParser) -> None:
    command.add_argument("instance", metavar="INSTANCE", help="the Instance, or a Workload that has one")
    add_connection_flags(command)
    add_output_flag(command)


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = -1.0
    if not 0 <= speed <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1000")
    return speed


CONSOLE = Command(
    "console",
    group=CommandGroup.INSPECT,
    help="the serial console of a virtual machine, a shell in a sandbox; and recorded sessions",
    epilog="Exit codes: 0 left or ended normally, 1 not found, rejected or disconnected, 2 the command line is wrong.",
    flags=_console_flags,
    run=client_verb("tarmac.cli.machines.console"),
)
VNC = Command(
    "vnc",
    group=CommandGroup.INSPECT,
    help="the screen of a virtual machine at a port of this computer, in a browser, or as a picture",
    epilog="Exit codes: 0 done, 1 not found or refused, 2 the command line is wrong.",
    flags=_vnc_flags,
    run=client_verb("tarmac.cli.machines.vnc"),
)
MACHINE = Command(
    "machine",
    group=CommandGroup.CHANGE,
    help="reboot, reset, pause, resume, stop or start a virtual machine",
    flags=_machine_flags,
    run=client_verb("tarmac.cli.machines.power"),
)
