"""The `tarmac` program: parses the command line and hands over to one composition root.

Roots are imported only when asked for, so `tarmac --help` and shell completion stay quick.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from tarmac.apps.commands import parsed, run
from tarmac.base.garbage import collect_later

_BROKEN_PIPE = 128 + signal.SIGPIPE  # the exit code that shells report for this signal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    collect_later()
    options = parsed(sys.argv[1:] if arguments is None else arguments)
    try:
        code = run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. Buffered output must not fail again when the process exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    return code


if __name__ == "__main__":
    sys.exit(main())
