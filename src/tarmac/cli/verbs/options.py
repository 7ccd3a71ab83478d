"""The command line of Tarmac's own verbs. Flags are named as in kubectl where it has them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tarmac.api.nodetokens import MAX_USES
from tarmac.cli.logs.options import add_logs
from tarmac.cli.top.options import add_top

_OBJECT = (
    "the object: KIND/NAME, such as workload/web, wd/web-dfw-1a2b3c4d, instance/…, pod/…, extsvc/…, sipc/…, "
    "sourceip/… or sourceipclass/…; or just NAME"
)
_WORKLOAD = "the Workload: workload/NAME, or just NAME"


def add_verbs(commands: Any) -> None:
    """Add the commands to the top parser's subparsers."""
    why = commands.add_parser(
        "why", help="explain the state of an object, and the change that would help",
        epilog="Exit codes: 0 explained, or with --reach Yes; 1 not found or failed; 2 the command line is wrong; "
        "3 with --reach No, Some, Wait or Unknown.",
    )  # fmt: skip
    why.add_argument("object", nargs="+", metavar="KIND/NAME", help=_OBJECT)
    why.add_argument(
        "--reach", default="", metavar="TARGET:PORT[/udp]",
        help="whether this instance or pod reaches an instance's NAME, NAMESPACE/NAME, pod/…, service/…, "
        "externalservice/… or an address, such as [fd20::5]:443, and the rule that decides",
    )  # fmt: skip
    why.add_argument("--both", action="store_true", help="with --reach: the opposite direction too")
    add_connection_flags(why)
    add_output_flag(why)

    plan = commands.add_parser(
        "plan", help="show the effects of a manifest of Workloads or external services without applying it",
        epilog="Exit codes: 0 everything in it would run, 1 failed, 2 a part would be rejected or could not run.",
    )  # fmt: skip
    plan.add_argument("-f", "--filename", required=True, metavar="FILE", help="the manifest; - is standard input")
    plan.add_argument(
        "--without", action="append", default=[], metavar="CITY", help="as if this city were lost; may be repeated"
    )
    add_connection_flags(plan)
    add_output_flag(plan)
    _add_rollout(commands)
    _add_status(commands)
    _add_egress(commands)
    _add_node(commands)
    _add_token(commands)
    _add_restored(commands)
    _add_user(commands)
    _add_rotate(commands)
    _add_machines(commands)
    _add_dashboard(commands)
    add_logs(commands, add_connection_flags)
    add_top(commands, _add_server_flags)


def _add_rollout(commands: Any) -> None:
    rollout = commands.add_parser(
        "rollout", help="follow a Workload's rollout, stop and resume it, go back to an earlier revision"
    )
    actions = rollout.add_subparsers(dest="action", metavar="ACTION", required=True)

    status = actions.add_parser(
        "status", help="wait until every instance is ready and has the newest revision",
        epilog="Exit codes: 0 complete, 1 not found, timed out or failed.",
    )  # fmt: skip
    # kubectl writes these with "=", and a name may follow, so every form is listed.
    status.add_argument(
        "-w", "--watch", "--watch=true", dest="watch", action="store_true", default=True, help="wait (the default)"
    )
    status.add_argument("--watch=false", dest="watch", action="store_false", help="print the current state and exit")
    status.add_argument(
        "--timeout", type=_seconds, default=None, metavar="TIME", help="timeout, such as 5m (default: none)"
    )

    history = actions.add_parser("history", help="the revisions of the template")
    history.add_argument("--revision", type=int, metavar="N", help="show the template of this revision")
    add_output_flag(history)

    undo = actions.add_parser("undo", help="go back to an earlier revision, as a new revision")
    undo.add_argument(
        "--to-revision", type=int, default=0, metavar="N", help="the revision (default: the previous one)"
    )
    undo.add_argument("--dry-run", "--dry-run=server", dest="dry_run", action="store_true", help="change nothing")

    pause = actions.add_parser("pause", help="pause rollout and scaling")
    resume = actions.add_parser("resume", help="resume after a pause")
    restart = actions.add_parser("restart", help="replace every instance, city by city, as if the template had changed")
    for action in (status, history, undo, pause, resume, restart):
        action.add_argument("object", nargs="+", metavar="WORKLOAD", help=_WORKLOAD)
        add_connection_flags(action)


def _add_status(commands: Any) -> None:
    status = commands.add_parser(
        "status", help="the cluster on one screen: servers, store, leader, cities, nodes, certificates, backup",
        epilog="Exit codes: 0 no visible problem, 1 a problem, or no server answers.",
    )  # fmt: skip
    _add_server_flags(status)
    add_output_flag(status)


def _add_egress(commands: Any) -> None:
    egress = commands.add_parser("egress", help="test an ExternalService from inside its pods")
    actions = egress.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser(
        "check", help="open a connection from a pod of each source, and print the address that the outside sees",
        epilog="Exit codes: 0 every source has the right address, 1 one has not, or failed, 2 the command line is "
        "wrong.",
    )  # fmt: skip
    check.add_argument("name", metavar="NAME", help="the ExternalService: NAME or extsvc/NAME")
    check.add_argument(
        "--from", dest="from_pod", default="", metavar="POD", help="only from this pod: NAME or NAMESPACE/NAME"
    )
    add_connection_flags(check)
    add_output_flag(check)


def _add_node(commands: Any) -> None:
    node = commands.add_parser("node", help="node capacity and usage; remove lost nodes")
    actions = node.add_subparsers(dest="action", metavar="ACTION", required=True)
    report = actions.add_parser(
        "report", help="capacity, reservations with their sources, oversubscription, requests and usage of pods",
        epilog="Exit codes: 0 reported, 1 a node was not found or it failed, 2 the command line is wrong.",
    )  # fmt: skip
    report.add_argument("names", nargs="*", metavar="NODE", help="nodes to show in detail (default: a table of all)")
    _add_server_flags(report)
    add_output_flag(report)
    remove = actions.add_parser(
        "remove", help="remove a lost node: revoke its certificates, delete its pods and disks",
        epilog="Exit codes: 0 removed, 1 no such node, a node that was seen lately, or failed.",
    )  # fmt: skip
    remove.add_argument("name", metavar="NODE", help="the node")
    remove.add_argument("--force", action="store_true", help="also a node that was seen in the last 40 s")
    _add_server_flags(remove)


def _add_token(commands: Any) -> None:
    token = commands.add_parser("token", help="manage join tokens")
    actions = token.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="create a token and print it; it is shown only once")
    kind = create.add_mutually_exclusive_group(required=True)
    kind.add_argument("--location", default="", metavar="CODE", help="the Location that its nodes belong to")
    kind.add_argument(
        "--server", action="store_true", help="for one more server, which gets every key; at most an hour, one use"
    )
    create.add_argument("--node", action="store_true", default=True, help="for nodes, unless --server is given")
    create.add_argument("--ttl", type=_span, default=3600.0, metavar="TIME", help="validity, such as 30m (default: 1h)")
    create.add_argument(
        "--uses", type=_uses, default=1, metavar="N", help="hosts that may join, 0 for any number (default: 1)"
    )
    listing = actions.add_parser("list", help="list tokens, their uses so far and their expiry")
    delete = actions.add_parser("delete", aliases=["revoke"], help="delete tokens; nodes that joined stay")
    delete.add_argument("ids", nargs="+", metavar="ID", help="ids, as `list` shows them, or whole tokens")
    for action in (create, listing):
        add_output_flag(action)
    for action in (create, listing, delete):
        _add_server_flags(action)


def _add_restored(commands: Any) -> None:
    restored = commands.add_parser(
        "restored", help="after a restore: adopt or stop pods that the restored data does not have"
    )
    actions = restored.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the pods, their nodes, and the state in the store")
    add_output_flag(listing)
    adopt = actions.add_parser("adopt", help="store pods as they run; nothing is restarted")
    remove = actions.add_parser("remove", help="stop pods, as if they were deleted")
    for action in (adopt, remove):
        action.add_argument("pods", nargs="*", metavar="NAMESPACE/POD", help="which")
        action.add_argument("--all", action="store_true", help="every one of them")
        action.add_argument("--node", default="", metavar="NAME", help="on which node, where several run one name")
    for action in (listing, adopt, remove):
        _add_server_flags(action)


def _add_user(commands: Any) -> None:
    user = commands.add_parser("user", help="create or revoke a user's kubeconfig")
    actions = user.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser(
        "create", help="create a key here, have a certificate signed for it, and write both into a kubeconfig",
        epilog="Exit codes: 0 written, 1 refused or failed, and nothing was written.",
    )  # fmt: skip
    create.add_argument("name", metavar="NAME", help="the user name in roles and in the audit log")
    create.add_argument(
        "--group", action="append", default=[], metavar="GROUP", help="a group that roles may name; repeatable"
    )
    create.add_argument(
        "--ttl", type=_lifetime, default=_lifetime("90d"), metavar="TIME",
        help="validity of the certificate, 10m to 365d (default: 90d)",
    )  # fmt: skip
    create.add_argument(
        "-o", "--output", dest="file", type=Path, metavar="FILE", help="the file to write (default: NAME.kubeconfig)"
    )
    ending = actions.add_parser("revoke", help="revoke every certificate of a name that was issued until now")
    ending.add_argument("name", metavar="NAME", help="the user name of the certificate")
    for action in (create, ending):
        _add_server_flags(action)


def _add_rotate(commands: Any) -> None:
    rotate = commands.add_parser(
        "rotate", help="rotate cluster keys without downtime",
        epilog="Exit codes: 0 done or in progress, 1 failed, 3 obstacles to retiring the old key.",
    )  # fmt: skip
    rotate.add_argument(
        "what", choices=("ca", "tokens", "encryption"),
        help="the CA of certificates, the signing key of service account tokens, or the key of Secrets at rest",
    )  # fmt: skip
    doing = rotate.add_mutually_exclusive_group()
    doing.add_argument("--status", action="store_true", help="only print the progress")
    doing.add_argument("--retire", action="store_true", help="retire the old key and all its certificates or tokens")
    rotate.add_argument(
        "--force",
        action="store_true",
        help="retire even if clients use the old key; else: do not wait for nodes",
    )
    add_output_flag(rotate)
    _add_server_flags(rotate)


def _lifetime(text: str) -> float:
    days = text.removesuffix("d")
    found = int(days) * 86400.0 if days != text and days.isdecimal() and len(days) < 6 else _span(text)
    if not 600 <= found <= 365 * 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a length of time from 10m to 365d, such as 90d")
    return found


def _uses(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_USES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 (any number of machines) to {MAX_USES}")
    return int(text)


def _span(text: str) -> float:
    found = _seconds(text)
    if found is None or found < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a length of time, such as 1h")
    return found


def _add_machines(commands: Any) -> None:
    console = commands.add_parser(
        "console", help="the serial console of a virtual machine, a shell in a sandbox; and recorded sessions",
        epilog="Exit codes: 0 left or ended normally, 1 not found, rejected or disconnected, 2 the command line is "
        "wrong.",
    )  # fmt: skip
    console.add_argument("--watch", action="store_true", help="watch only, do not request the keyboard")
    console.add_argument("--takeover", action="store_true", help="take the keyboard from its holder")
    console.add_argument("--container", default="", metavar="NAME", help="of a sandbox (default: the first)")
    console.add_argument("--list", action="store_true", help="list recorded sessions instead")
    console.add_argument("--replay", default="", metavar="SESSION", help="show a recorded session instead")
    console.add_argument("--speed", type=_speed, default=1.0, metavar="N", help="replay speed; 0: at once (default: 1)")

    vnc = commands.add_parser(
        "vnc", help="the screen of a virtual machine at a port of this computer, in a browser, or as a picture",
        epilog="Exit codes: 0 done, 1 not found or refused, 2 the command line is wrong.",
    )  # fmt: skip
    vnc.add_argument("--port", type=_port, default=0, metavar="N", help="on 127.0.0.1 (default: a free one)")
    vnc.add_argument("--view", action="store_true", help="watch only: keys and pointer do nothing")
    vnc.add_argument("--browser", action="store_true", help="serve noVNC to this computer, and open it")
    vnc.add_argument("--screenshot", default="", metavar="FILE.png", help="write the current screen, and exit")

    machine = commands.add_parser("machine", help="reboot, reset, pause, resume, stop or start a virtual machine")
    actions = machine.add_subparsers(dest="action", metavar="ACTION", required=True)
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
    for command in (console, vnc):
        _add_instance(command)


def _add_dashboard(commands: Any) -> None:
    dashboard = commands.add_parser(
        "dashboard", help="open the dashboard locally, with the rights of your kubeconfig",
        epilog="Exit codes: 0 ended by Ctrl-C or SIGTERM, 1 no kubeconfig, server, port or page, 2 the command line.",
    )  # fmt: skip
    dashboard.add_argument(
        "--port", type=_port, default=None, metavar="N",
        help="on 127.0.0.1, that one or none; 0: any (default: 6480, or a free one)",
    )  # fmt: skip
    dashboard.add_argument("--no-browser", dest="browser", action="store_false", help="print the address, open nothing")
    add_connection_flags(dashboard)


def _add_instance(command: argparse.ArgumentParser) -> None:
    command.add_argument("instance", metavar="INSTANCE", help="the Instance, or a Workload that has one")
    add_connection_flags(command)
    add_output_flag(command)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = -1.0
    if not 0 <= speed <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1000")
    return speed


def add_connection_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags that select the server and the namespace."""
    command.add_argument("-n", "--namespace", metavar="NAME", help="namespace (default: that of the context)")
    _add_server_flags(command)


def _add_server_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig (default: KUBECONFIG, then ~/.kube/config)")
    command.add_argument("--context", metavar="NAME", help="context of the kubeconfig")


def add_output_flag(command: argparse.ArgumentParser) -> None:
    """Add the flag that selects the output format."""
    command.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="output format (default: text)"
    )


def _seconds(text: str) -> float | None:
    from tarmac.base.duration import parse_duration

    try:
        return parse_duration(text) or None
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
