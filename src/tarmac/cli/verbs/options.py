"""The command line of Tarmac's own verbs. Flags that kubectl has too are called as there."""

from __future__ import annotations

import argparse
from typing import Any

_OBJECT = "what to look at: KIND/NAME, such as workload/web, wd/web-dfw-1a2b3c4d, instance/… or pod/…; or just NAME"
_WORKLOAD = "the Workload: workload/NAME, or just NAME"


def add_verbs(commands: Any) -> None:
    """Add the commands to the top parser's subparsers."""
    why = commands.add_parser(
        "why", help="why an object is as it is, and what would change it",
        epilog="Exit codes: 0 explained, 1 not found or failed, 2 the command line is wrong.",
    )  # fmt: skip
    why.add_argument("object", nargs="+", metavar="KIND/NAME", help=_OBJECT)
    _add_connection_flags(why)
    _add_output_flag(why)

    plan = commands.add_parser(
        "plan", help="what a manifest would do, city by city, without doing it",
        epilog="Exit codes: 0 everything in it would run, 1 failed, 2 something would be refused or could not run.",
    )  # fmt: skip
    plan.add_argument("-f", "--filename", required=True, metavar="FILE", help="the manifest; - is standard input")
    plan.add_argument(
        "--without", action="append", default=[], metavar="CITY", help="as if this city were lost; may be repeated"
    )
    _add_connection_flags(plan)
    _add_output_flag(plan)
    _add_rollout(commands)
    _add_node(commands)


def _add_rollout(commands: Any) -> None:
    rollout = commands.add_parser(
        "rollout", help="follow a Workload's rollout, stop and resume it, go back to an earlier revision"
    )
    actions = rollout.add_subparsers(dest="action", metavar="ACTION", required=True)

    status = actions.add_parser(
        "status", help="wait until every instance is ready and of the newest revision",
        epilog="Exit codes: 0 complete, 1 not found, timed out or failed.",
    )  # fmt: skip
    # kubectl writes these with "=", and a name may follow, so every form is spelt out.
    status.add_argument(
        "-w", "--watch", "--watch=true", dest="watch", action="store_true", default=True, help="wait (the default)"
    )
    status.add_argument("--watch=false", dest="watch", action="store_false", help="say how things stand and end")
    status.add_argument(
        "--timeout", type=_seconds, default=None, metavar="TIME", help="how long to wait, such as 5m (default: no end)"
    )

    history = actions.add_parser("history", help="the revisions of the template")
    history.add_argument("--revision", type=int, metavar="N", help="show the template of this revision")
    _add_output_flag(history)

    undo = actions.add_parser("undo", help="go back to an earlier revision; the way back is a new revision")
    undo.add_argument("--to-revision", type=int, default=0, metavar="N", help="which one (default: the one before)")
    undo.add_argument("--dry-run", "--dry-run=server", dest="dry_run", action="store_true", help="change nothing")

    pause = actions.add_parser("pause", help="stop rollout and scaling where they are")
    resume = actions.add_parser("resume", help="go on after a pause")
    restart = actions.add_parser("restart", help="replace every instance, city by city, as if the template had changed")
    for action in (status, history, undo, pause, resume, restart):
        action.add_argument("object", nargs="+", metavar="WORKLOAD", help=_WORKLOAD)
        _add_connection_flags(action)


def _add_node(commands: Any) -> None:
    node = commands.add_parser("node", help="what nodes have, and what became of it")
    actions = node.add_subparsers(dest="action", metavar="ACTION", required=True)
    report = actions.add_parser(
        "report", help="capacity, reservations with their sources, oversubscription, what pods asked for and use",
        epilog="Exit codes: 0 reported, 1 a node was not found or it failed, 2 the command line is wrong.",
    )  # fmt: skip
    report.add_argument("names", nargs="*", metavar="NODE", help="nodes to show in detail (default: a table of all)")
    _add_server_flags(report)
    _add_output_flag(report)


def _add_connection_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("-n", "--namespace", metavar="NAME", help="namespace (default: that of the context)")
    _add_server_flags(command)


def _add_server_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig (default: KUBECONFIG, then ~/.kube/config)")
    command.add_argument("--context", metavar="NAME", help="context of the kubeconfig")


def _add_output_flag(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="how to print (default: text)"
    )


def _seconds(text: str) -> float | None:
    from tarmac.base.duration import parse_duration

    try:
        return parse_duration(text) or None
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
