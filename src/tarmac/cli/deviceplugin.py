"""The flags of `tarmac device-plugin`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tarmac.cli.agent import pairs

DEVICE_PLUGIN_CODES = "Exit codes: 0 after a signal, 1 no driver or no GPU, 2 the command line, 78 a wrong name."


def add_device_plugin_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac device-plugin`."""
    command.add_argument("vendor", choices=("nvidia",), metavar="nvidia", help="the devices to offer")
    command.add_argument(
        "--device-plugin-dir", type=Path, default=Path("/var/lib/kubelet/device-plugins"), metavar="DIR",
        help="the folder of the sockets of device plugins and the agent or kubelet (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--names", type=pairs, default={}, metavar="MODEL=NAME,MODEL=NAME",
        help="other names for models, such as a100=tesla-a100: offered as datumcloud.com/nvidia-tesla-a100",
    )  # fmt: skip
    command.add_argument(
        "--report", type=Path, metavar="FILE", help="write figures and health of all GPUs to this file, for the agent"
    )
    command.add_argument(
        "--root", type=Path, default=Path("/"), metavar="DIR",
        help="the directory with the driver's files, /proc and /dev (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--interval", type=_seconds, default=10.0, metavar="SECONDS",
        help="seconds between two looks at the GPUs (default: %(default)s)",
    )  # fmt: skip
    command.add_argument("--verbose", action="store_true", help="log more")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.05 to 3600")
    return value
