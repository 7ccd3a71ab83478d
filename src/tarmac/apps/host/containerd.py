"""`tarmac containerd`: the host's containerd in the foreground, for its systemd unit."""

from __future__ import annotations

import argparse

from tarmac.apps.host.hostlayout import Machine, pinned_containerd
from tarmac.base.stderr import print_error
from tarmac.runtimes.containerd.orphans import end_orphans
from tarmac.runtimes.containerd.process import become
from tarmac.runtimes.parts import PartMissing


def main(options: argparse.Namespace) -> int:
    """Prepare its directories and exec it; returns only on failure."""
    try:
        settings = pinned_containerd(Machine())
        end_orphans(settings.run)
        become(settings)
    except (PartMissing, OSError, RuntimeError) as error:
        print_error(error)
    return 1
