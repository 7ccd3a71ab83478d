"""The command `tarmac logs`. Flags are named as in kubectl where it has them."""

from __future__ import annotations

import argparse

from tarmac.base.clock import parse_rfc3339
from tarmac.base.duration import parse_duration
from tarmac.cli.cities import city_codes
from tarmac.cli.command import OBJECT, Command, CommandGroup, client_verb
from tarmac.cli.flags import add_connection_flags

MAX_STREAMS = 50


def _logs_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "targets", nargs="*", metavar="TARGET", help="a workload's NAME, or wl/NAME, wd/NAME, instance/NAME, pod/NAME"
    )
    command.add_argument("-l", "--selector", default="", metavar="SELECTOR", help="pods by their labels instead")
    command.add_argument(
        "-f", "--follow", action="store_true", help="follow new lines, including those of new instances"
    )
    command.add_argument("-c", "--container", default="", metavar="NAME", help="of each instance (default: the first)")
    command.add_argument("--all-containers", action="store_true", help="of each instance")
    command.add_argument("--city", type=city_codes, default=[], metavar="CODE,CODE", help="only in these cities")
    since = command.add_mutually_exclusive_group()
    since.add_argument("--since", type=_span, metavar="TIME", help="only lines younger than this, such as 5m")
    since.add_argument("--since-time", type=_moment, metavar="T", help="only lines since this RFC 3339 time")
    command.add_argument(
        "--tail",
        type=_lines,
        metavar="N",
        help="last lines of each log, -1 for all (default: all of one, 10 of several)",
    )
    command.add_argument("-p", "--previous", action="store_true", help="of the last containers that have ended")
    command.add_argument("--timestamps", action="store_true", help="put the time before each line")
    command.add_argument("--grep", default="", metavar="RE", help="only lines that match this regular expression")
    command.add_argument(
        "--prefix", action="store_true", help="print the source of lines even if there is one log only"
    )
    command.add_argument(
        "--max-log-requests", type=_most, default=MAX_STREAMS, metavar="N",
        help="maximum number of logs to read at once (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto",
        help="colour the source of lines (default: on a terminal)",
    )  # fmt: skip
    add_connection_flags(command)
    command.add_argument(
        "-o", "--output", choices=("text", "json"), default="text",
        help="output format; json: an object a line (default: text)",
    )  # fmt: skip


def _span(text: str) -> float:
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if found <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a length of time, such as 5m")
    return found


def _moment(text: str) -> str:
    try:
        parse_rfc3339(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not an RFC 3339 time, such as 2026-11-15T12:00:00Z") from error
    return text


def _lines(text: str) -> int:
    if text != "-1" and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines; -1 means all")
    return int(text)


def _most(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 6 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of logs")
    return int(text)


LOGS = Command(
    "logs",
    group=CommandGroup.INSPECT,
    help="the logs of a workload's instances in all cities, ordered by time",
    epilog="Exit codes: 0 read, or Ctrl-C with -f; 1 not found, or a log could not be read; 2 the command line "
    "is wrong, or selects more logs than allowed.",
    flags=_logs_flags,
    run=client_verb("tarmac.cli.logs.logs", endless="follow"),
    completes={"": OBJECT},
)
