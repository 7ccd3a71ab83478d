"""The flags of `tarmac image`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_image(commands: Any, add_data_dir: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add `tarmac image` to the top parser's subparsers."""
    image = commands.add_parser("image", help="your own images, in the cities that `up` runs on this machine")
    actions = image.add_subparsers(dest="action", metavar="ACTION", required=True)
    load = actions.add_parser("load", help="put the images of an OCI or docker archive into cities")
    load.add_argument("archive", type=Path, metavar="FILE", help="as `docker save -o FILE` or `buildah push` write it")
    load.add_argument("--name", default="", metavar="IMAGE", help="what to call it, when the archive does not say")
    shown = actions.add_parser("list", help="which images are in which cities")
    for action in (load, shown):
        action.add_argument(
            "--city", action="append", type=str.upper, default=[], metavar="CODE",
            help="only this city; may be repeated (default: all)",
        )  # fmt: skip
        add_data_dir(action)
