"""Parses the command line, over the values of a configuration file for the commands that have one.

Exit codes everywhere: 0 done, 1 failed, 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Final

from tarmac.base.typos import closest_name
from tarmac.cli.command import Command, command_parsers, parser_of

_MAX_NAME: Final = 64  # get_close_matches compares in quadratic time


# Handles unknown flags.
#
# Only `tarmac agent` accepts them, with a warning: a node with flags newer than its agent, after a downgrade, still
# starts. But a flag that looks like a known one was mistyped, and a node that starts without it may be sized wrongly:
# that is refused, and so is a word that belongs to no flag.


class BadFlag(ValueError):
    """The command line is wrong. The message names the word and the accepted form."""


def unknown_flags(words: Sequence[str], unrecognised: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    """Yield unknown flags as they were written, with their values. `unrecognised`: words left over by argparse.

    Raises BadFlag.
    """
    left = list(unrecognised)
    for word, following in zip(words, [*words[1:], "-"], strict=True):
        if not left or word != left[0]:
            continue
        left.pop(0)
        if not word.startswith("-") or not word.strip("-"):
            raise BadFlag(f"unrecognized arguments: {word}")
        _check(word.partition("=")[0], known)
        if "=" not in word and not following.startswith("-"):
            left.pop(0)
            word = f"{word} {following}"
        yield word


def _check(flag: str, known: Sequence[str]) -> None:
    if near := closest_name(flag, known):
        raise BadFlag(f"there is no flag {flag}; did you mean {near}?")
    contained = [each for each in known if each.removeprefix("--") in flag]
    if contained:
        raise BadFlag(f"there is no flag {flag}; did you mean {max(contained, key=len)}?")


def parse(commands: Sequence[Command], arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. Ends the program with code 2 when they are wrong."""
    top = parser_of(commands)
    _check_name(top, commands, arguments)
    options, unrecognised = top.parse_known_args(arguments)
    if getattr(options, "config", None) and options.command in ("server", "agent"):
        options = _with_file(top, options, arguments)
    if not unrecognised:
        return options
    if options.command != "agent":
        top.error(f"unrecognized arguments: {' '.join(unrecognised)}")
    words = arguments[arguments.index("agent") + 1 :]
    try:
        options.unknown = tuple(unknown_flags(words, unrecognised, options.known_flags))
    except BadFlag as error:
        top.exit(2, f"error: {error}\n")
    return options


def _check_name(top: argparse.ArgumentParser, commands: Sequence[Command], arguments: Sequence[str]) -> None:
    """End the program without a command, with the help, and with an unknown one, with similar names."""
    if not arguments:
        top.print_help()
        top.exit(0)
    name, names = arguments[0], [each.name for each in commands]
    if name.startswith("-") or name in names:
        return
    near = get_close_matches(name[:_MAX_NAME], names)
    hint = f"did you mean {' or '.join(near)}?" if near else "`tarmac --help` lists the commands"
    top.exit(2, f"error: {name}: unknown command; {hint}\n")


def _with_file(
    top: argparse.ArgumentParser, options: argparse.Namespace, arguments: Sequence[str]
) -> argparse.Namespace:
    """Parse the arguments over the file's values.

    An agent's file may be a KubeletConfiguration, which is read elsewhere.
    """
    from tarmac.cli.configfile import KINDS, BadConfigFile, is_ours, read_file

    parsers = command_parsers(top)
    command = parsers[options.command]
    try:
        if options.command == "agent" and not is_ours(options.config):
            return options
        found = [each for each in read_file(options.config, parsers) if KINDS[each.kind] == options.command]
        if not found:
            kind = next(kind for kind, name in KINDS.items() if name == options.command)
            raise BadConfigFile(f"{options.config}: there is no {kind} in it")
    except BadConfigFile as error:
        top.exit(os.EX_CONFIG if options.command == "agent" else 2, f"error: {error}\n")
    usual = {name: command.get_default(name) for name in found[0].values}
    command.set_defaults(**found[0].values)
    merged, _ = top.parse_known_args(arguments)
    for name, default in usual.items():  # a given flag replaces a list of the file, it does not add to it
        if isinstance(default, list) and getattr(options, name) != default:
            setattr(merged, name, getattr(options, name))
    merged.config = None
    return merged
