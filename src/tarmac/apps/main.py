"""The `tarmac` program: parses the command line and hands over to one composition root.

Roots are imported only when asked for, so `tarmac --help` and shell completion stay quick.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from tarmac.base.garbage import collect_later
from tarmac.cli.options import parsed

# command -> module with `main(options) -> exit code`
ROOTS = {
    "up": "tarmac.apps.up",
    "down": "tarmac.apps.down",
    "image": "tarmac.apps.images",
    "server": "tarmac.apps.server",
    "controllers": "tarmac.apps.controllers",
    "agent": "tarmac.apps.agent",
    "crds": "tarmac.apps.crds",
    "store": "tarmac.apps.store",
    "backup": "tarmac.apps.backups.backup",
    "restore": "tarmac.apps.backups.restore",
    "upgrade": "tarmac.apps.upgradecheck",
    "config": "tarmac.apps.configcheck",
    "init": "tarmac.apps.host.initializing",
    "join": "tarmac.apps.host.joining",
    "leave": "tarmac.apps.host.leaving",
    "containerd": "tarmac.apps.host.containerd",
    "version": "tarmac.apps.version",
    "completion": "tarmac.apps.completion",
    "sim": "tarmac.apps.sim",
    "why": "tarmac.apps.verbs",
    "plan": "tarmac.apps.verbs",
    "rollout": "tarmac.apps.verbs",
    "egress": "tarmac.apps.verbs",
    "node": "tarmac.apps.verbs",
    "token": "tarmac.apps.verbs",
    "restored": "tarmac.apps.verbs",
    "status": "tarmac.apps.verbs",
    "user": "tarmac.apps.verbs",
    "rotate": "tarmac.apps.verbs",
    "console": "tarmac.apps.verbs",
    "vnc": "tarmac.apps.verbs",
    "machine": "tarmac.apps.verbs",
    "dashboard": "tarmac.apps.dashboard",
    "logs": "tarmac.apps.verbs",
    "top": "tarmac.apps.verbs",
}

_BROKEN_PIPE = 128 + signal.SIGPIPE  # the exit code that shells report for this signal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    collect_later()
    options = parsed(sys.argv[1:] if arguments is None else arguments)
    try:
        code = import_module(ROOTS[options.command]).main(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. Buffered output must not fail again when the process exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    return code


if __name__ == "__main__":
    sys.exit(main())
