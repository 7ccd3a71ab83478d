"""Every test: those that may share the machine side by side, then two at a time those that have to be on time but
mostly wait, then the others one at a time.

Tests with real processes, kernels, clocks and kills can fail through no fault of the change under test. With
`--second-look N`, at most N tests that failed are run once more, by themselves and from nothing, and the run passes if
they pass then. It says aloud which ones those were: each of them is a defect, of a test or of what it tests, that is to
be mended. A run that ended otherwise than by tests that failed (a crash, a collection error, a signal) gets none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PASSED, FAILED, NONE_THERE = 0, 1, 5  # of pytest's exit codes
_FAILED_LAST = Path(".pytest_cache/v/cache/lastfailed")
_SLOWEST = 25  # are named at the end of each part: what to look at when all of it takes too long
_SIDE_BY_SIDE, _ONE_AT_A_TIME = ("not serial", "serial and lab"), "serial and not lab"


def run(workers: int, second_look: int, more: Sequence[str] = ()) -> int:
    """The exit code for all of it."""
    _FAILED_LAST.unlink(missing_ok=True)  # of earlier runs
    codes = [_pytest("-n", str(workers), "--dist", "loadfile", "-m", each, *more) for each in _SIDE_BY_SIDE]
    codes = [each for each in (*codes, _pytest("-m", _ONE_AT_A_TIME, *more)) if each != NONE_THERE] or [NONE_THERE]
    if set(codes) <= {PASSED}:
        return PASSED
    failed = failed_tests()
    if not set(codes) <= {PASSED, FAILED} or not 0 < len(failed) <= second_look:
        return max(codes)
    _say(f"{len(failed)} failed; they are run once more, by themselves")
    if again := _pytest("--last-failed", "--last-failed-no-failures", "none", *more):
        return again
    _say("passed only the second time, and want mending:", *(f"  FLAKY {each}" for each in failed))
    return PASSED


def failed_tests() -> list[str]:
    """What failed since the beginning, as pytest remembers it."""
    try:
        return sorted(json.loads(_FAILED_LAST.read_text()))
    except FileNotFoundError:
        return []


def _pytest(*words: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", f"--durations={_SLOWEST}", *words], check=False).returncode


def _say(*lines: str) -> None:
    print("\n".join(lines), flush=True)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Run every test.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--second-look", type=int, default=0, metavar="N")
    parser.add_argument("--took", type=Path, required=True, help="file that remembers how long it took the last time")
    own, more = parser.parse_known_args()
    expected = own.took.read_text() if own.took.exists() else "about an hour on two quiet processors"
    _say(f"every test: {expected.strip()}; make quick takes less than two minutes")
    began = time.monotonic()
    code = run(own.workers, own.second_look, more)
    if not more:
        own.took.write_text(f"{(time.monotonic() - began) / 60:.0f} minutes the last time\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
