"""Flags that several commands share, and the parsers of their values."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from tarmac.base.duration import parse_duration

DEFAULT_LISTEN = "127.0.0.1:6443"


def default_data_dir() -> Path:
    """Return `/var/lib/tarmac` for root, else a folder under the user's data directory."""
    if os.geteuid() == 0:
        return Path("/var/lib/tarmac")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "tarmac"


def local_kubeconfig() -> Path:
    """Return the administrator's kubeconfig of `tarmac up` in its default data directory."""
    return default_data_dir() / "kubeconfig"


def add_connection_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags that select the server and the namespace."""
    command.add_argument("-n", "--namespace", metavar="NAME", help="namespace (default: that of the context)")
    add_kubeconfig_flags(command)


def add_kubeconfig_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags that select the server."""
    command.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="kubeconfig (default: KUBECONFIG, ~/.kube/config, then that of `tarmac up`)",
    )
    command.add_argument("--context", metavar="NAME", help="context of the kubeconfig")


def add_output_flag(command: argparse.ArgumentParser) -> None:
    """Add the flag that selects the output format."""
    command.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="output format (default: text)"
    )


def add_data_dir(command: argparse.ArgumentParser) -> None:
    """Add the flag of the server's data directory."""
    command.add_argument(
        "--data-dir", type=Path, default=default_data_dir(), metavar="DIR",
        help="the folder of state, keys, certificates and the kubeconfig (default: %(default)s)",
    )  # fmt: skip


def add_store_url(command: argparse.ArgumentParser) -> None:
    """Add the flag of the server's store."""
    command.add_argument(
        "--store", default="", metavar="URL",
        help="sqlite:///PATH, etcd://HOST:PORT,HOST:PORT or memory:// (default: sqlite in the data directory)",
    )  # fmt: skip


def listen_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, with brackets around an IPv6 host."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535 or not host:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, for example {DEFAULT_LISTEN} or [::1]:6443")
    return host.removeprefix("[").removesuffix("]"), int(port)


def duration(text: str) -> float | None:
    """Parse a duration, such as 5m; 0 is none."""
    try:
        return parse_duration(text) or None
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def span(text: str) -> float:
    """Parse a positive duration, such as 1h."""
    found = duration(text)
    if found is None or found < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a length of time, such as 1h")
    return found


def local_port(text: str) -> int:
    """Parse a port to listen on; 0 picks a free one."""
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)
