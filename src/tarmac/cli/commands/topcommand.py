"""The command `tarmac top`. Flags are named as in kubectl where it has them."""

from __future__ import annotations

import argparse

from tarmac.cli.cities import city_codes
from tarmac.cli.command import Command, CommandGroup, client_verb
from tarmac.cli.flags import add_kubeconfig_flags

LEVELS = ("cities", "nodes", "workloads", "instances")


def _top_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("level", nargs="?", choices=LEVELS, default="cities", help="rows (default: cities)")
    scope = command.add_mutually_exclusive_group()
    scope.add_argument("-n", "--namespace", metavar="NAME", help="namespace (default: that of the context)")
    scope.add_argument("-A", "--all-namespaces", action="store_true", help="workloads and instances of all namespaces")
    command.add_argument("--city", type=city_codes, default=[], metavar="CODE,CODE", help="only these cities")
    command.add_argument(
        "-l", "--selector", default="", metavar="SELECTOR",
        help="only these, by labels: of nodes for cities and nodes, of instances otherwise",
    )  # fmt: skip
    command.add_argument(
        "--sort-by", choices=("cpu", "memory", "name"), default="cpu", help="sort order (default: most cpu)"
    )
    command.add_argument(
        "--gpu", action="store_true", help="a row for each GPU: usage, memory, power, health and the pod that has it"
    )
    command.add_argument("-w", "--watch", action="store_true", help="show it again every 15 s")
    add_kubeconfig_flags(command)
    command.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="output format (default: text)"
    )


TOP = Command(
    "top",
    group=CommandGroup.INSPECT,
    help="CPU and memory usage of cities, nodes, workloads or instances; usage of GPUs",
    epilog="Exit codes: 0 shown, or Ctrl-C with -w; 1 failed, or no metrics; 2 the command line is wrong.",
    flags=_top_flags,
    run=client_verb("tarmac.cli.top.top", endless="watch"),
)
