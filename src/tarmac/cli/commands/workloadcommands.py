"""The commands of Workloads and their connections: `new`, `why`, `plan`, `rollout`, `egress`, `ingress`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tarmac.cli.cities import city_codes
from tarmac.cli.command import OBJECT, Command, CommandGroup, client_verb, root
from tarmac.cli.flags import add_connection_flags, add_output_flag, duration

_OBJECT = (
    "the object: KIND/NAME, such as workload/web, wd/web-dfw-1a2b3c4d, instance/…, pod/…, deploy/…, job/…, extsvc/…, "
    "sipc/…, "
    "sourceip/… or sourceipclass/…; or just NAME"
)
_WORKLOAD = "the Workload: workload/NAME, or just NAME"


def _new_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="name of the Workload and of its container")
    command.add_argument("--image", required=True, metavar="IMAGE", help="its image, such as nginx:1.29")
    command.add_argument(
        "--cities", required=True, type=city_codes, metavar="CODE,CODE", help="IATA codes of its cities"
    )
    command.add_argument("--port", type=_port, metavar="PORT", help="the port that it listens on")
    command.add_argument(
        "--replicas", type=_replicas, default=1, metavar="N", help="instances in each city (default: 1)"
    )
    command.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="a new file to write (default: standard output)"
    )


def _why_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("object", nargs="+", metavar="KIND/NAME", help=_OBJECT)
    command.add_argument(
        "--reach", default="", metavar="TARGET:PORT[/udp]",
        help="whether this instance or pod reaches an instance's NAME, NAMESPACE/NAME, pod/…, service/…, "
        "externalservice/… or an address, such as [fd20::5]:443, and the rule that decides",
    )  # fmt: skip
    command.add_argument("--both", action="store_true", help="with --reach: the opposite direction too")
    add_connection_flags(command)
    add_output_flag(command)


def _why(options: argparse.Namespace) -> int:
    module = "tarmac.cli.verbs.reach" if options.reach or options.both else "tarmac.cli.verbs.why"
    return client_verb(module)(options)


def _cities(text: str) -> list[str]:
    codes = [code.strip().upper() for code in text.split(",")]
    if not all(code.isalnum() for code in codes):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of cities, such as DFW,SEA")
    return codes


def _convert_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("-f", "--filename", required=True, metavar="FILE", help="the manifest; - is standard input")
    command.add_argument(
        "--cities", type=_cities, required=True, metavar="CITY,CITY", help="cities of the Workload, such as DFW,SEA"
    )


def _plan_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("-f", "--filename", required=True, metavar="FILE", help="the manifest; - is standard input")
    command.add_argument(
        "--without", action="append", default=[], metavar="CITY", help="as if this city were lost; may be repeated"
    )
    add_connection_flags(command)
    add_output_flag(command)


def _rollout_flags(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)

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
        "--timeout", type=duration, default=None, metavar="TIME", help="timeout, such as 5m (default: none)"
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


def _egress_flags(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
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


def _ingress_flags(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser(
        "check", help="connect to each public address of a Service or Workload from the nodes of each city",
        epilog="Exit codes: 0 every connection was made, 1 one was not, or failed, 2 the command line is wrong.",
    )  # fmt: skip
    check.add_argument("name", metavar="NAME", help="the Service or Workload: NAME, svc/NAME or workload/NAME")
    check.add_argument("--from", dest="city", default="", metavar="CITY", help="only from the nodes of this city")
    add_connection_flags(check)
    add_output_flag(check)


def _port(text: str) -> int:
    return _number(text, 65535, "a port, such as 8080")


def _replicas(text: str) -> int:
    return _number(text, 10_000, "a number of instances, such as 2")


def _number(text: str, most: int, wanted: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= most):
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
    return int(text)


NEW = Command(
    "new",
    group=CommandGroup.RUN,
    help="write the manifest of a Workload: tarmac new NAME --image I --cities DFW,SEA | kubectl apply -f -",
    epilog="Exit codes: 0 written, 1 the file exists or cannot be written, 2 the command line is wrong.",
    flags=_new_flags,
    run=root("tarmac.apps.newworkload"),
)
WHY = Command(
    "why",
    group=CommandGroup.INSPECT,
    help="explain the state of an object, and the change that would help",
    epilog="Exit codes: 0 explained, or with --reach Yes; 1 not found or failed; 2 the command line is wrong; 3 "
    "with --reach No, Some, Wait or Unknown.",
    flags=_why_flags,
    run=_why,
    completes={"": OBJECT},
)
PLAN = Command(
    "plan",
    group=CommandGroup.CHANGE,
    help="show the effects of a manifest of Workloads, external services or public addresses without applying it",
    epilog="Exit codes: 0 everything in it would run, 1 failed, 2 a part would be rejected or could not run.",
    flags=_plan_flags,
    run=client_verb("tarmac.cli.verbs.plan"),
)
CONVERT = Command(
    "convert",
    group=CommandGroup.CHANGE,
    help="print a Workload in place of a Deployment, and what has no equivalent",
    epilog="Exit codes: 0 printed, 2 nothing in the file becomes a Workload, or the command line is wrong.",
    flags=_convert_flags,
    run=root("tarmac.apps.convert"),
)
ROLLOUT = Command(
    "rollout",
    group=CommandGroup.CHANGE,
    help="follow a Workload's rollout, stop and resume it, go back to an earlier revision",
    flags=_rollout_flags,
    run=client_verb("tarmac.cli.verbs.rollout"),
    completes={"": "workload"},
)
EGRESS = Command(
    "egress",
    group=CommandGroup.INSPECT,
    help="test an ExternalService from inside its pods",
    flags=_egress_flags,
    run=client_verb("tarmac.cli.egress.check"),
    completes={"check": "externalservice"},
)
INGRESS = Command(
    "ingress",
    group=CommandGroup.INSPECT,
    help="test the public addresses of a Service or Workload from nodes",
    flags=_ingress_flags,
    run=client_verb("tarmac.cli.ingress.ingresscheck"),
    completes={"check": "service"},
)
