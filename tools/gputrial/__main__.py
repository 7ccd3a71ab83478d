"""`python3 -m tools.gputrial --package FILE --kubectl FILE`: runs the trial; exit code 0 if every bar is met."""

from __future__ import annotations

import argparse
import shutil
import sys
import traceback
from pathlib import Path

from tools.gputrial.machine import Machine, TrialFailed, missing_here
from tools.gputrial.story import Story
from tools.gputrial.table import Rows

_ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run all steps; print the table."""
    options = argparse.ArgumentParser(prog="python3 -m tools.gputrial", description=__doc__)
    options.add_argument("--package", type=Path, help="the package (default: the newest for noble in dist)")
    options.add_argument("--kubectl", default="kubectl", help="the program (default: on the PATH)")
    options.add_argument("--output", type=Path, metavar="FILE", help="write the table to this file, too")
    options.add_argument("--keep", action="store_true", help="leave everything running at the end")
    told = options.parse_args()
    package = told.package or next(iter(sorted((_ROOT / "dist").glob("tarmac_*_noble_*.deb"))), None)
    missing = missing_here((told.kubectl, "nft", "nsenter", "mkfs.ext4", "dpkg"))
    if package is None:
        missing.append("no package in dist: make package ARGS='--system noble'")
    if package is None or missing:
        print(f"error: the trial cannot run here: {', '.join(missing)}", file=sys.stderr)
        return 2
    rows = Rows()
    machine = Machine(str(shutil.which(str(told.kubectl))))
    try:
        _run(Story(machine, rows), package)
    except (TrialFailed, OSError, ValueError) as failure:
        traceback.print_exc()
        rows.show("the trial ended early", true=False, found=str(failure).splitlines()[0])
    finally:
        if not told.keep:
            machine.stop()
    print(rows.table())
    if told.output:
        told.output.write_text(rows.table())
    return 0 if rows.good else 1


def _run(story: Story, package: Path) -> None:
    story.begin(package)
    pod = story.one_gpu()
    story.measure(pod)
    story.refusals()
    story.second_waits()
    story.kills(pod)
    story.passed_on()


if __name__ == "__main__":
    sys.exit(main())
