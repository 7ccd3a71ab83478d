"""The join token: from a file, standard input or the environment, none of which other local users can read.

Command lines are visible to every local user while the process runs, so a token after `--token` gets a warning.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from getpass import getpass

from tarmac.api.nodetokens import BadToken, NodeToken, parse_token
from tarmac.base.stderr import print_warning

VARIABLE = "TARMAC_TOKEN"
STANDARD_INPUT = "-"
_MAX_BYTES = 4096
_WAYS = f"write the output of `tarmac token create` there, or set {VARIABLE}"


def joining_token(options: argparse.Namespace) -> NodeToken:
    """Return the token of a flag or of the environment. Raises BadToken, which names the source and never the token."""
    # Removed even if a flag is used: children, such as those of --foreground, have no use for the token.
    exported = os.environ.pop(VARIABLE, "")
    if options.token_file is not None:
        return _parsed("--token-file", _from_file(options.token_file))
    if options.token is not None:
        print_warning("--token: every local user can see the token in this command line; use --token-file")
        return _parsed("--token", options.token)
    if not exported.strip():
        raise BadToken(
            f"no token: give --token-file FILE, or --token-file {STANDARD_INPUT} for standard input, or set {VARIABLE}"
        )
    return _parsed(VARIABLE, exported)


def _parsed(source: str, text: str) -> NodeToken:
    try:
        return parse_token(text)
    except BadToken as error:
        raise BadToken(f"{source}: {error}") from None


def _from_file(name: str) -> str:
    shown = "standard input" if name == STANDARD_INPUT else name
    try:
        found = _typed_or_piped() if name == STANDARD_INPUT else _content(name)
    except (OSError, EOFError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "no input"
        raise BadToken(f"--token-file: {shown} cannot be read ({why}); {_WAYS}") from None
    if not found.strip():
        raise BadToken(f"--token-file: {shown} is empty; {_WAYS}")
    return found


def _typed_or_piped() -> str:
    if sys.stdin.isatty():
        return getpass("token: ")  # not echoed
    return sys.stdin.buffer.read(_MAX_BYTES).decode(errors="replace")


def _content(path: str) -> str:
    with open(path, "rb") as file:
        # The mode of the opened file, not of the path: a link may change in between.
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISREG(mode) and mode & 0o077:
            print_warning(
                f"--token-file: group or other users have access to {path} (mode {stat.S_IMODE(mode):04o}); "
                f"chmod 600 {path}"
            )
        return file.read(_MAX_BYTES).decode(errors="replace")
