"""Random histories with every fault: no safety rule is ever broken, and everything recovers when the faults stop.

34 seeds and 12 more drawn by the date, 10,000 in a soak. A seed that fails is printed with the command that replays it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from tarmac.apps.sim import play_seeds, replay, report
from tarmac.apps.simtrial import TrialSettings, trial
from tarmac.controllers.ipam import AddressBook
from tarmac.decide.scheduling import demand
from tarmac.decide.scheduling.filters import qosclasses
from tests.soak import SOAK

SEEDS = range(1, 10_001) if SOAK else (*range(1, 31), 89, 156, 180, 214)
"""The last four are above the thirty and have each found a defect."""
DRAWN = 0 if SOAK else 12
_FIRST_DRAWN = 20_000  # above all fixed seeds

pytestmark = pytest.mark.timeout(300)  # a history takes two seconds of a processor; the machine may be busy


def drawn_today() -> range:
    """Seeds that no earlier day has tried: a year of runs covers 4,380 beside the fixed ones."""
    first = _FIRST_DRAWN + datetime.now(UTC).date().toordinal() * DRAWN
    return range(first, first + DRAWN)


@pytest.mark.soak(minutes=170)
@pytest.mark.timeout(0 if SOAK else 900)
def test_every_seed_is_safe_and_comes_right(capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        print()
        assert play_seeds([*SEEDS, *drawn_today()], os.cpu_count() or 1) == 0


def test_a_trial_is_the_same_in_every_process() -> None:
    def told(hash_seed: str) -> str:
        program = "from tarmac.apps.simtrial import trial; print(trial(5).digest)"
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert told("1") == told("4242") != ""


def test_a_failing_seed_prints_the_command_that_replays_it() -> None:
    hopeless = trial(1, TrialSettings(turmoil=30.0, patience=-1.0))
    assert "converges" in {violation.rule for violation in hopeless.violations}
    assert report(hopeless).endswith(f"replay: {replay(1)}")
    assert replay(1) == "tarmac sim --seed 1 --verbose"


def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address book never learns of addresses in use."""
    monkeypatch.setattr(AddressBook, "_changed", lambda _self, _old, _new: None)
    broken = {violation.rule for seed in (1, 3) for violation in trial(seed, TrialSettings(patience=300.0)).violations}
    assert "addresses-unique" in broken


def found(seeds: Sequence[int], *rules: str) -> bool:
    """Return true if histories break these rules. The seeds are some of the first forty that hit the planted defect."""
    stories = ({each.rule for each in trial(seed, TrialSettings(patience=60.0)).violations} for seed in seeds)
    return any({*rules} <= broken for broken in stories)


def test_a_scheduler_that_counts_one_place_too_many_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class takes one container more than its capacity."""
    right = qosclasses._limits  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(qosclasses, "_limits", lambda *asked: tuple((place, most + 1) for place, most in right(*asked)))
    monkeypatch.setattr(qosclasses.ClassOffer, "full", lambda *_: 0)
    assert found((8, 11, 12, 13), "never-refused", "bound-once")


def test_a_scheduler_that_gives_a_processor_too_many_away_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for exclusive CPUs counts as one less."""
    right = demand.exclusive_peak
    monkeypatch.setattr(demand, "exclusive_peak", lambda spec: max(0, right(spec) - 1))
    assert found((18, 34, 35), "never-refused", "bound-once")
