"""Long versions of tests. `make soak` runs them; `make test` runs the short ones.

A test with a long version reads `SOAK` for its counts and carries `@pytest.mark.soak(minutes=N)`, the duration of the
long version on two cores. With `only=True` there is no short version, and `make test` skips the test by name.
Property-based tests have a long version without the marker: the hypothesis profile `soak`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

import pytest
from hypothesis import settings

SOAK = bool(os.environ.get("TARMAC_SOAK"))
_PROPERTY_MINUTES = 0.2  # of one property with the profile `soak`

settings.register_profile("ci", max_examples=100, deadline=None)
settings.register_profile("soak", max_examples=2000, deadline=None)
settings.load_profile("soak" if SOAK else "ci")


def skip_without_soak(item: pytest.Item) -> None:
    """Skip a test that has only a long version, unless this is a soak."""
    marker = item.get_closest_marker("soak")
    if marker is not None and marker.kwargs.get("only") and not SOAK:
        pytest.skip(f"NOT RUN: takes about {marker.kwargs['minutes']:g} minutes; make soak runs it")


class Progress:
    """Prints the expected duration of a soak at its start, and after each test how much of it is done."""

    def __init__(self, items: Iterable[pytest.Item]) -> None:
        self._minutes = {item.nodeid: _minutes(item) for item in items}
        self._total = sum(self._minutes.values())
        self._done = 0.0
        self._began = time.monotonic()
        print(f"\nsoak: {len(self._minutes)} tests, about {_spoken(self._total)}", flush=True)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Print the progress after each test."""
        self._done += self._minutes[nodeid]
        took = _spoken((time.monotonic() - self._began) / 60)
        print(f"\nsoak: {100 * self._done / self._total:.0f} % after {took}, last {nodeid}", flush=True)


def _minutes(item: pytest.Item) -> float:
    marker = item.get_closest_marker("soak")
    return float(marker.kwargs["minutes"]) if marker is not None else _PROPERTY_MINUTES


def _spoken(minutes: float) -> str:
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
