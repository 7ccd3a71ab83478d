"""The flags of host set-up: `init`, `join`, `leave`, `etcd`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from tarmac.cli.agent import addresses, pairs
from tarmac.cli.controllers import names, seconds
from tarmac.cli.flags import add_output_flag, add_store_url, listen_address

HOST_CODES: Final = (
    "Exit codes: 0 done or nothing to do, 1 failed or refused, 2 the command line, 3 obstacles, nothing was changed."
)
ETCD_CODES: Final = "Exit codes: 0 done, 1 failed or refused, and no member was changed."
_FOREGROUND = "run everything as child processes until a signal, where systemd does not"


def add_init_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac init`."""
    command.add_argument(
        "--listen", type=listen_address, default=listen_address("0.0.0.0:6443"), metavar="HOST:PORT",
        help="the address to serve HTTPS on (default: 0.0.0.0:6443)",
    )  # fmt: skip
    command.add_argument(
        "--tls-san", action="append", default=[], metavar="NAME",
        help="another name or address of the server; may be repeated",
    )  # fmt: skip
    add_store_url(command)
    command.add_argument(
        "--with-etcd", action="store_true",
        help="run a member of etcd here for the store, so that more servers, each with a member, may join",
    )  # fmt: skip
    command.add_argument(
        "--location", default="", metavar="CODE", help="be a node too, of the Location with this city code"
    )
    command.add_argument("--name", default="", metavar="NAME", help="the node's name (default: the host's)")
    _add_common(command, "60s")


def add_join_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac join`."""
    command.add_argument(
        "addresses", type=_addresses, nargs="?", default=[], metavar="ADDRESS[,ADDRESS]",
        help="servers of the cluster, to become their node: HOST or HOST:PORT",
    )  # fmt: skip
    command.add_argument(
        "--server", type=_addresses, default=[], metavar="ADDRESS[,ADDRESS]",
        help="servers of the cluster, to become one more: takes a token of `tarmac token create --server`",
    )  # fmt: skip
    command.add_argument(
        "--listen", type=listen_address, default=listen_address("0.0.0.0:6443"), metavar="HOST:PORT",
        help="with --server: the address to serve HTTPS on (default: 0.0.0.0:6443)",
    )  # fmt: skip
    command.add_argument(
        "--tls-san", action="append", default=[], metavar="NAME",
        help="with --server: another name or address of the server; may be repeated",
    )  # fmt: skip
    token = command.add_mutually_exclusive_group()
    token.add_argument(
        "--token-file", metavar="FILE",
        help="a file with the token of `tarmac token create`, - for standard input (default: TARMAC_TOKEN's value)",
    )  # fmt: skip
    token.add_argument("--token", metavar="TOKEN", help="the token itself, visible to every local user: prefer a file")
    command.add_argument("--name", default="", metavar="NAME", help="the node's or server's name (default: the host's)")
    command.add_argument("--labels", type=pairs, default={}, metavar="KEY=VALUE,KEY=VALUE", help="labels of the node")
    command.add_argument(
        "--address", type=addresses, default=(), metavar="ADDRESS,ADDRESS",
        help="the node's addresses (default: those of its default routes)",
    )  # fmt: skip
    _add_common(command, "2m")


def add_etcd_flags(command: argparse.ArgumentParser) -> None:
    """Add the actions of `tarmac etcd`."""
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    members = actions.add_parser("members", help="list the members, and the losses that the store survives")
    add_output_flag(members)
    remove = actions.add_parser("remove", help="remove a member, unless the quorum would be lost")
    replace = actions.add_parser("replace", help="remove a lost member, and print the command for a new host")
    for action in (remove, replace):
        action.add_argument("name", metavar="NAME", help="the member, as `members` shows it")
    run = actions.add_parser("run", help="the member of this host in the foreground, as its unit runs it")
    run.add_argument(
        "--data-dir", type=Path, default=Path("/var/lib/tarmac"), metavar="DIR",
        help="the server's data directory (default: %(default)s)",
    )  # fmt: skip


def add_leave_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac leave`."""
    command.add_argument(
        "--drain-timeout", type=seconds, default=300.0, metavar="TIME",
        help="time for which disruption budgets apply (default: 5m)",
    )  # fmt: skip
    command.add_argument(
        "--delete-disks", action="store_true", help="delete disks of instances here too; their data is lost"
    )
    command.add_argument("--force", action="store_true", help="do not ask the server; remove the node there afterwards")
    command.add_argument(
        "--delete-data", action="store_true", help="remove the server too: all its stored data is lost"
    )


def _add_common(command: argparse.ArgumentParser, timeout: str) -> None:
    command.add_argument("--foreground", action="store_true", help=_FOREGROUND)
    command.add_argument(
        "--timeout", type=seconds, default=seconds(timeout), metavar="TIME",
        help=f"timeout until it is ready (default: {timeout})",
    )  # fmt: skip


def _addresses(text: str) -> list[str]:
    found = list(names(text))
    if not found:
        raise argparse.ArgumentTypeError("name at least one server, such as 192.0.2.1")
    return found
