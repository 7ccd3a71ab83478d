"""The flags of `tarmac image`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tarmac.base.quantity import Quantity
from tarmac.cli.flags import add_connection_flags, add_data_dir, add_output_flag

REGISTRY_PORT = 5000
"""The port of the registry unless another is given."""


def add_image_flags(command: argparse.ArgumentParser) -> None:
    """Add the actions of `tarmac image`."""
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    load = actions.add_parser("load", help="put the images of an OCI or docker archive into cities")
    load.add_argument("archive", type=Path, metavar="FILE", help="as `docker save -o FILE` or `buildah push` write it")
    load.add_argument("--name", default="", metavar="IMAGE", help="the name of the image, when the archive has none")
    shown = actions.add_parser("list", help="list images and their cities")
    for action in (load, shown):
        action.add_argument(
            "--city", action="append", type=str.upper, default=[], metavar="CODE",
            help="only this city; may be repeated (default: all)",
        )  # fmt: skip
        add_data_dir(action)
    _add_upload(actions)


def _add_upload(actions: Any) -> None:
    upload = actions.add_parser(
        "upload", help="bring an operating system for the virtual machines of a namespace",
        epilog="Exit codes: 0 uploaded, or already there; 1 refused or failed; 2 the flags or the file are wrong.",
    )  # fmt: skip
    upload.add_argument("name", metavar="NAME", help="of the LocalMachineImage; Workloads name it ./NAME")
    upload.add_argument(
        "file", type=Path, metavar="FILE", help="a disk: qcow2 or raw; also packed with gzip, xz or zstd"
    )
    upload.add_argument("--format", choices=("raw", "qcow2"), help="of the disk (default: by the file's first bytes)")
    upload.add_argument("--size", type=_size, metavar="SIZE", help="of disks made from it (default: the disk's own)")
    upload.add_argument("--firmware", choices=("bios", "uefi"), default="bios", help="the firmware (default: bios)")
    upload.add_argument(
        "--accepts", choices=("cloud-init", "none"), default="cloud-init",
        help="how it is told keys and addresses (default: cloud-init)",
    )  # fmt: skip
    upload.add_argument(
        "--registry", type=_address, default=("127.0.0.1", REGISTRY_PORT), metavar="HOST:PORT",
        help=f"of the registry of `tarmac up --registry` (default: 127.0.0.1:{REGISTRY_PORT})",
    )  # fmt: skip
    add_connection_flags(upload)
    add_output_flag(upload)


def _size(text: str) -> int:
    try:
        found = Quantity.parse(text).value()
    except ValueError:
        found = 0
    if found <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as 10Gi")
    return found


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address, such as 127.0.0.1:{REGISTRY_PORT}")
    return host.strip("[]") or "127.0.0.1", int(port)
