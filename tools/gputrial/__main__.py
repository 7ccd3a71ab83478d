"""`python3 -m tools.gputrial --package FILE --kubectl FILE`: runs the trial; exit code 0 if every bar is met."""

from __future__ import annotations

import argparse
import shutil
import sys
import traceback
from pathlib import Path

from tools.gputrial.faults import Faults, judge_holders
from tools.gputrial.machine import RUNSC, Machine, TrialFailed, missing_here
from tools.gputrial.story import Story
from tools.gputrial.survey import keep_logs, survey
from tools.gputrial.table import Rows
from tools.gputrial.watch import HolderWatch

_ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run all steps; print the table."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.gputrial", description=__doc__)
    parser.add_argument("--package", type=Path, help="the package (default: the newest for noble in dist)")
    parser.add_argument("--kubectl", default="kubectl", help="the program (default: on the PATH)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the table to this file, with every row")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="write what is known of the machine, and logs, to it")
    parser.add_argument("--seconds", type=float, default=480, metavar="N", help="end after this long (default: 480)")
    parser.add_argument("--keep", action="store_true", help="leave everything running at the end")
    options = parser.parse_args()
    if options.logs:
        survey(options.logs)
    package = options.package or next(iter(sorted((_ROOT / "dist").glob("tarmac_*_noble_*.deb"))), None)
    missing = missing_here((options.kubectl, "nft", "nsenter", "mkfs.ext4", "dpkg"))
    if package is None:
        missing.append("no package in dist: make package ARGS='--system noble'")
    if package is None or missing:
        print(f"error: the trial cannot run here: {', '.join(missing)}", file=sys.stderr)
        return 2
    rows = Rows(file=options.output)
    machine, watch = Machine(str(shutil.which(str(options.kubectl))), options.seconds), HolderWatch(RUNSC)
    try:
        _run(machine, rows, package, watch)
    except (TrialFailed, OSError, ValueError) as failure:
        traceback.print_exc()
        rows.show("the trial ended early", true=False, found=str(failure).splitlines()[0])
    finally:
        watch.stop()
        judge_holders(rows, watch)
        if options.logs:
            keep_logs(options.logs)
        if not options.keep:
            machine.stop()
    print(rows.table())
    return 0 if rows.good else 1


def _run(machine: Machine, rows: Rows, package: Path, watch: HolderWatch) -> None:
    story = Story(machine, rows)
    story.begin(package)
    watch.start()
    pod = story.one_gpu()
    story.figures()
    story.measure(pod)
    story.refusals()
    faults = Faults(machine, rows, story.resource)
    faults.kills("while one runs")
    faults.second_waits()
    faults.kills("while a second waits")
    faults.hand_overs()


if __name__ == "__main__":
    sys.exit(main())
