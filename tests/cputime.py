"""Prints the files whose tests used the most CPU time, child processes included.

On two cores the CPU time of all tests bounds the duration of the run from below; `--durations` shows time, most of
which is waiting. A child counts for the test in which it is reaped, so a shared server counts for the last test that
uses it.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator

import pytest

_SHOWN = 25
_PROPERTY = "cpu_seconds"


class CpuTimes:
    """CPU seconds of each file. Workers measure; the controller adds up and prints."""

    def __init__(self) -> None:
        self._before = 0.0
        self._by_file: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Begin a test in the process that runs it; the controller of workers measures its own time, and ignores it."""
        self._before = _used()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """Attach the CPU time to the last report of a test, which reaches the controller."""
        if call.when == "teardown":
            item.user_properties.append((_PROPERTY, _used() - self._before))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a finished test to its file."""
        if report.when == "teardown":
            seconds = next((value for name, value in report.user_properties if name == _PROPERTY), 0.0)
            assert isinstance(seconds, float)
            self._by_file[report.nodeid.partition("::")[0]] += seconds

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the most expensive files and the sum."""
        total = sum(self._by_file.values())
        if total >= 60:  # not for the run of a few files
            terminalreporter.section(f"CPU time: {total:.0f} s in {len(self._by_file)} files")
            for name, seconds in sorted(self._by_file.items(), key=lambda each: -each[1])[:_SHOWN]:
                terminalreporter.write_line(f"{seconds:6.1f} s  {name}")


def pytest_configure(config: pytest.Config) -> None:
    """Measure every run."""
    config.pluginmanager.register(CpuTimes())


def _used() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
