"""`tarmac containerd`: the machine's own containerd in the foreground, as its unit runs it."""

from __future__ import annotations

import argparse
import sys

from tarmac.apps.machine.layout import Machine, pinned_containerd
from tarmac.runtimes.containerd.leftovers import end_orphans
from tarmac.runtimes.containerd.process import become
from tarmac.runtimes.parts import PartMissing


def main(options: argparse.Namespace) -> int:
    """Prepare its folders and become it; returns only when that cannot be."""
    try:
        settings = pinned_containerd(Machine())
        end_orphans(settings.run)
        become(settings)
    except (PartMissing, OSError, RuntimeError) as error:
        print(f"tarmac: {error}", file=sys.stderr)
    return 1
