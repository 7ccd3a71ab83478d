"""The commands of a cluster: `status`, `node`, `location`, `token`, `restored`, `user`, `rotate`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tarmac.api.nodetokens import MAX_USES
from tarmac.cli.cities import city_code
from tarmac.cli.command import Command, CommandGroup, by_action, client_verb
from tarmac.cli.flags import add_kubeconfig_flags, add_output_flag, span


def _status_flags(command: argparse.ArgumentParser) -> None:
    add_kubeconfig_flags(command)
    add_output_flag(command)


def _node_flags(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    report = actions.add_parser(
        "report", help="capacity, reservations with their sources, oversubscription, requests and usage of pods",
        epilog="Exit codes: 0 reported, 1 a node was not found or it failed, 2 the command line is wrong.",
    )  # fmt: skip
    report.add_argument("names", nargs="*", metavar="NODE", help="nodes to show in detail (default: a table of all)")
    add_kubeconfig_flags(report)
    add_output_flag(report)
    remove = actions.add_parser(
        "remove", help="remove a lost node: revoke its certificates, delete its pods and disks",
        epilog="Exit codes: 0 removed, 1 no such node, a node that was seen lately, or failed.",
    )  # fmt: skip
    remove.add_argument("name", metavar="NODE", help="the node")
    remove.add_argument("--force", action="store_true", help="also a node that was seen in the last 40 s")
    add_kubeconfig_flags(remove)


def _location_flags(command: argparse.ArgumentParser) -> None:
    create = command.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser(
        "create", help="create a Location for the nodes of a city",
        epilog="Exit codes: 0 created, 1 it exists or the server refused, 2 the command line is wrong.",
    )  # fmt: skip
    create.add_argument("code", type=city_code, metavar="CODE", help="IATA code of the city, such as LHR")
    create.add_argument("--name", default="", metavar="NAME", help="its name (default: the code in lower case)")
    add_kubeconfig_flags(create)
    add_output_flag(create)


def _token_flags(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="create a token and print it; it is shown only once")
    kind = create.add_mutually_exclusive_group(required=True)
    kind.add_argument("--location", default="", metavar="CODE", help="the Location that its nodes belong to")
    kind.add_argument(
        "--server", action="store_true", help="for one more server, which gets every key; at most an hour, one use"
    )
    create.add_argument("--node", action="store_true", default=True, help="for nodes, unless --server is given")
    create.add_argument("--ttl", type=span, default=3600.0, metavar="TIME", help="validity, such as 30m (default: 1h)")
    create.add_argument(
        "--uses", type=_uses, default=1, metavar="N", help="hosts that may join, 0 for any number (default: 1)"
    )
    listing = actions.add_parser("list", help="list tokens, their uses so far and their expiry")
    delete = actions.add_parser("delete", aliases=["revoke"], help="delete tokens; nodes that joined stay")
    delete.add_argument("ids", nargs="+", metavar="ID", help="ids, as `list` shows them, or whole tokens")
    for action in (create, listing):
        add_output_flag(action)
    for action in (create, listing, delete):
        add_kubeconfig_flags(action)


def _restored_flags(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the pods, their nodes, and the state in the store")
    add_output_flag(listing)
    adopt = actions.add_parser("adopt", help="store pods as they run; nothing is restarted")
    remove = actions.add_parser("remove", help="stop pods, as if they were deleted")
    for action in (adopt, remove):
        action.add_argument("pods", nargs="*", metavar="NAMESPACE/POD", help="which")
        action.add_argument("--all", action="store_true", help="every one of them")
        action.add_argument("--node", default="", metavar="NAME", help="on which node, where several run one name")
    for action in (listing, adopt, remove):
        add_kubeconfig_flags(action)


def _user_flags(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
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
        add_kubeconfig_flags(action)


def _rotate_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "what", choices=("ca", "tokens", "encryption"),
        help="the CA of certificates, the signing key of service account tokens, or the key of Secrets at rest",
    )  # fmt: skip
    doing = command.add_mutually_exclusive_group()
    doing.add_argument("--status", action="store_true", help="only print the progress")
    doing.add_argument("--retire", action="store_true", help="retire the old key and all its certificates or tokens")
    command.add_argument(
        "--force",
        action="store_true",
        help="retire even if clients use the old key; else: do not wait for nodes",
    )
    add_output_flag(command)
    add_kubeconfig_flags(command)


def _lifetime(text: str) -> float:
    days = text.removesuffix("d")
    found = int(days) * 86400.0 if days != text and days.isdecimal() and len(days) < 6 else span(text)
    if not 600 <= found <= 365 * 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a length of time from 10m to 365d, such as 90d")
    return found


def _uses(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_USES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 (any number of machines) to {MAX_USES}")
    return int(text)


STATUS = Command(
    "status",
    group=CommandGroup.INSPECT,
    help="the cluster on one screen: servers, store, leader, cities, nodes, certificates, backup",
    epilog="Exit codes: 0 no visible problem, 1 a problem, or no server answers.",
    flags=_status_flags,
    run=client_verb("tarmac.cli.verbs.clusterstatus"),
)
NODE = Command(
    "node",
    group=CommandGroup.INSPECT,
    help="node capacity and usage; remove lost nodes",
    flags=_node_flags,
    run=by_action(
        report=client_verb("tarmac.cli.verbs.nodereport"),
        remove=client_verb("tarmac.cli.verbs.noderemoval"),
    ),
    completes={"report": "node", "remove": "node"},
)
LOCATION = Command(
    "location",
    group=CommandGroup.CLUSTER,
    help="create Locations: the cities that hosts join",
    flags=_location_flags,
    run=by_action(create=client_verb("tarmac.cli.verbs.locations")),
)
TOKEN = Command(
    "token",
    group=CommandGroup.CLUSTER,
    help="manage join tokens",
    flags=_token_flags,
    run=client_verb("tarmac.cli.verbs.tokens"),
    completes={"delete": "token", "revoke": "token"},
)
RESTORED = Command(
    "restored",
    group=CommandGroup.CLUSTER,
    help="after a restore: adopt or stop pods that the restored data does not have",
    flags=_restored_flags,
    run=client_verb("tarmac.cli.verbs.restored"),
)
USER = Command(
    "user",
    group=CommandGroup.CLUSTER,
    help="create or revoke a user's kubeconfig",
    flags=_user_flags,
    run=client_verb("tarmac.cli.verbs.users"),
)
ROTATE = Command(
    "rotate",
    group=CommandGroup.CLUSTER,
    help="rotate cluster keys without downtime",
    epilog="Exit codes: 0 done or in progress, 1 failed, 3 obstacles to retiring the old key.",
    flags=_rotate_flags,
    run=client_verb("tarmac.cli.verbs.rotate"),
)
