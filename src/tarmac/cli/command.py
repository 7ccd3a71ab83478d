"""A verb of the command line: flags, help, completion and the function that runs it, in one object.

A command names the modules that it needs and loads them only when it runs, so `tarmac --help` and shell completion stay
quick.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from importlib import import_module
from typing import Final, NoReturn

from tarmac import __version__

OBJECT: Final = "KIND/NAME"
"""The completion of an argument that names an object of any kind."""

Run = Callable[[argparse.Namespace], int]
"""Runs a command with its parsed flags; returns the exit code."""


class CommandGroup(StrEnum):
    """The heading of a command in the help, in this order."""

    RUN = "Run"
    INSPECT = "Inspect"
    CHANGE = "Change"
    CLUSTER = "Cluster"
    HOST = "Host"
    OTHER = "Other"


def _no_flags(_command: argparse.ArgumentParser) -> None:
    """Add no flags."""


@dataclass(frozen=True, slots=True)
class Command:
    """One verb. `flags` adds its flags and actions to its parser; `completes` has the kind of its arguments.

    The keys of `completes` are actions of the verb; the empty one stands for every action.
    """

    name: str
    group: CommandGroup
    help: str
    run: Run
    flags: Callable[[argparse.ArgumentParser], None] = _no_flags
    epilog: str | None = None
    completes: Mapping[str, str] = field(default_factory=dict[str, str])
    abbreviations: bool = True
    """Accept unambiguous beginnings of flags."""

    def kind(self, actions: Sequence[str]) -> str:
        """Return the kind that completes the arguments of an action, or an empty string."""
        return self.completes.get(next(iter(actions), ""), self.completes.get("", ""))


class _Parser(argparse.ArgumentParser):
    """A parser of a command line; the parsers of its commands are of the same class."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error in the form of all commands; exit with code 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"error: {message.removeprefix('argument ')}\n")


_DESCRIPTION: Final = "Runs containers and virtual machines in many cities from one declarative object."
_NEXT: Final = "Flags of a command: `tarmac COMMAND --help`."


class _TopParser(_Parser):
    """The parser of the whole command line. Its help lists the commands by group."""

    def __init__(self, commands: Sequence[Command]) -> None:
        super().__init__(prog="tarmac", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
        self._commands = commands

    def format_help(self) -> str:
        """Return the help: usage, the commands of each group, and where to go on."""
        return "\n\n".join((f"{self.format_usage()}\n{_DESCRIPTION}", *self._groups(), _NEXT)) + "\n"

    def _groups(self) -> Iterator[str]:
        width = max(len(each.name) for each in self._commands)
        for group in CommandGroup:
            rows = [f"  {each.name:{width}}  {each.help}" for each in self._commands if each.group is group]
            yield "\n".join((f"{group}:", *rows))


def parser_of(commands: Sequence[Command]) -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = _TopParser(commands)
    top.add_argument("--version", action="version", version=f"tarmac {__version__}")
    # Its parsers are of the class of their own level, not of the top's.
    parsers = top.add_subparsers(parser_class=_Parser, dest="command", metavar="COMMAND", required=True)
    for each in commands:
        each.flags(parsers.add_parser(each.name, help=each.help, epilog=each.epilog, allow_abbrev=each.abbreviations))
    return top


def command_parsers(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command."""
    # argparse has no public list of them.
    [commands] = [each for each in top._actions if isinstance(each, argparse._SubParsersAction)]  # pyright: ignore[reportPrivateUsage]
    return dict(commands.choices)


def root(module: str) -> Run:
    """Return the `main(options)` of a module, which is loaded when the command runs."""
    return partial(_run_root, module)


def client_verb(module: str, endless: str = "") -> Run:
    """Return the `run(call)` of a module with a client of the kubeconfig's server; both are loaded when it runs.

    `endless` names a flag with which an interrupt is the regular end of the command.
    """
    return partial(_run_client_verb, module, endless)


def by_action(**runs: Run) -> Run:
    """Return a function that runs one of several by the action of the command line."""
    return partial(_run_action, runs)


def _run_root(module: str, options: argparse.Namespace) -> int:
    return import_module(module).main(options)


def _run_client_verb(module: str, endless: str, options: argparse.Namespace) -> int:
    verb = import_module(module)
    ends_normally = bool(endless and getattr(options, endless))
    return import_module("tarmac.cli.verbs.call").run_verb(verb.run, options, ends_normally=ends_normally)


def _run_action(runs: Mapping[str, Run], options: argparse.Namespace) -> int:
    return runs[options.action](options)
