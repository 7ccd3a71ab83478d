"""The command line of `tarmac top`. Flags are named as in kubectl where it has them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tarmac.cli.cities import city_codes

LEVELS = ("cities", "nodes", "workloads", "instances")


def add_top(commands: Any, add_server_flags: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the command to the top parser's subparsers."""
    top = commands.add_parser(
        "top", help="CPU and memory usage of cities, nodes, workloads or instances",
        epilog="Exit codes: 0 shown, or Ctrl-C with -w; 1 failed, or no metrics; 2 the command line is wrong.",
    )  # fmt: skip
    top.add_argument("level", nargs="?", choices=LEVELS, default="cities", help="rows (default: cities)")
    scope = top.add_mutually_exclusive_group()
    scope.add_argument("-n", "--namespace", metavar="NAME", help="namespace (default: that of the context)")
    scope.add_argument("-A", "--all-namespaces", action="store_true", help="workloads and instances of all namespaces")
    top.add_argument("--city", type=city_codes, default=[], metavar="CODE,CODE", help="only these cities")
    top.add_argument(
        "-l", "--selector", default="", metavar="SELECTOR",
        help="only these, by labels: of nodes for cities and nodes, of instances otherwise",
    )  # fmt: skip
    top.add_argument(
        "--sort-by", choices=("cpu", "memory", "name"), default="cpu", help="sort order (default: most cpu)"
    )
    top.add_argument("-w", "--watch", action="store_true", help="show it again every 15 s")
    add_server_flags(top)
    top.add_argument("-o", "--output", choices=("text", "json"), default="text", help="output format (default: text)")
