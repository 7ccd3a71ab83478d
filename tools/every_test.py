"""Runs every test: groups of them side by side, then one at a time those that judge wall-clock time.

Most tests wait for a process, a kernel or a packet, so there are more workers than cores. `tests/groups.py` says which
tests stay together.

Tests with real processes, kernels, clocks and kills can fail through no fault of the change under test. With
`--second-look N`, up to N failed tests run once more, by themselves and from a fresh start, and the run passes if they
pass then. The output names them: each is a defect of the test or of the product, to be fixed. A run that ends otherwise
than by failed tests (a crash, a collection error, a signal) gets no second look.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PASSED, FAILED, NONE_THERE = 0, 1, 5  # exit codes of pytest
_FAILED_LAST = Path(".pytest_cache/v/cache/lastfailed")
_SLOWEST = 25  # tests named at the end of each part


def run(workers: int, second_look: int, more: Sequence[str] = ()) -> int:
    """Return the exit code of the whole run."""
    _FAILED_LAST.unlink(missing_ok=True)  # left by an earlier run
    parts = [("-n", str(workers), "-m", "not serial"), ("-m", "serial", *([] if more else serial_files()))]
    codes = [code for part in parts if (code := _pytest(*part, *more)) != NONE_THERE] or [NONE_THERE]
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


def serial_files(folder: Path = Path("tests")) -> list[str]:
    """Return the files with tests that run alone. Collecting only these saves half a minute."""
    return sorted(str(path) for path in folder.rglob("test_*.py") if "pytest.mark.serial" in path.read_text())


def failed_tests() -> list[str]:
    """Return the tests that failed since the start, from pytest's cache."""
    try:
        return sorted(json.loads(_FAILED_LAST.read_text()))
    except FileNotFoundError:
        return []


def _pytest(*words: str) -> int:
    # Workers share compiled files: without them, each compiles a thousand.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "pytest", f"--durations={_SLOWEST}", *words]
    return subprocess.run(command, env=environment, check=False).returncode


def _say(*lines: str) -> None:
    print("\n".join(lines), flush=True)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Run every test.")
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--second-look", type=int, default=0, metavar="N")
    parser.add_argument("--took", type=Path, required=True, help="file that remembers how long it took the last time")
    own, more = parser.parse_known_args()
    expected = own.took.read_text() if own.took.exists() else "20 to 30 minutes on two cores"
    _say(f"every test: {expected.strip()}; make quick takes less than two minutes")
    began = time.monotonic()
    code = run(own.workers, own.second_look, more)
    minutes = (time.monotonic() - began) / 60
    _say(f"every test: {minutes:.1f} minutes")
    if not more:
        own.took.write_text(f"{minutes:.0f} minutes the last time\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
