"""The incremental roll-up equals a full one, after any sequence of changes."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.compute.workload import Counters, WorkloadStatus
from tarmac.api.shared import Condition
from tarmac.decide import reasons
from tarmac.decide.rollup import DeploymentTally, DeploymentView, PlacementFacts, WorkloadFacts, workload_status
from tests.decide.rollup import model

NOW = 1_800_000_000.0
PLACEMENTS = ("us", "eu")
WANTED = ("DFW", "LHR")

said = st.builds(
    Condition,
    type=st.just("any"),
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from(
        [reasons.NEW_REVISION, reasons.SCALING, reasons.COMPLETE, reasons.QUOTA_EXHAUSTED, reasons.STALLED, "Vendor"]
    ),
    message=st.sampled_from(["one", "two", "three"]),
)
counters = st.builds(
    Counters,
    **{name: st.integers(0, 5) for name in Counters.__struct_fields__},
)
views = st.builds(
    DeploymentView,
    city=st.sampled_from(["DFW", "SEA", "LHR"]),
    outdated=st.booleans(),
    counters=counters,
    available=st.none() | said,
    progressing=st.none() | said,
    trouble=st.sampled_from(["", reasons.QUOTA_EXHAUSTED, reasons.STARTING, reasons.STALLED]),
    location=st.sampled_from(["", "a", "b"]),
    deleting=st.booleans(),
)
changes = st.lists(
    st.tuples(st.sampled_from(PLACEMENTS), st.sampled_from(["web-a", "web-b", "web-c", "web-d"]), st.none() | views),
    max_size=24,
)


@given(changes)
def test_any_sequence_of_changes_and_deletions(sequence: Sequence[tuple[str, str, DeploymentView | None]]) -> None:
    """None stands for a deletion."""
    tallies = {name: DeploymentTally() for name in PLACEMENTS}
    known: dict[str, dict[str, DeploymentView]] = {name: {} for name in PLACEMENTS}
    status = None
    for placement, name, view in sequence:
        if view is not None:
            tallies[placement].put(name, view)
            known[placement][name] = view
        elif name in known[placement]:
            tallies[placement].drop(name)
            del known[placement][name]
        status = _status(tallies, status)
        _compare(status, known)


@given(changes)
def test_deployments_that_are_added_up_anew_give_the_same(
    sequence: Sequence[tuple[str, str, DeploymentView | None]],
) -> None:
    """As after a restart of the controller, in any order of reading."""
    tallies = {name: DeploymentTally() for name in PLACEMENTS}
    known: dict[str, dict[str, DeploymentView]] = {name: {} for name in PLACEMENTS}
    for placement, name, view in sequence:
        if view is not None:
            tallies[placement].put(name, view)
            known[placement][name] = view
    fresh = {name: DeploymentTally(reversed(known[name].items())) for name in PLACEMENTS}
    assert _status(tallies, None) == _status(fresh, None)


def _status(tallies: dict[str, DeploymentTally], old: WorkloadStatus | None) -> WorkloadStatus:
    placements = [PlacementFacts(name=name, cities=WANTED, deployments=tally) for name, tally in tallies.items()]
    return workload_status(WorkloadFacts(generation=1, placements=placements), old, NOW)


def _compare(status: WorkloadStatus, known: dict[str, dict[str, DeploymentView]]) -> None:
    everything: list[DeploymentView] = []
    for found, (_, deployments) in zip(status.placements, known.items(), strict=True):
        views = model.in_order(deployments)
        everything += views
        assert [getattr(found, name) for name in Counters.__struct_fields__] == model.counters(views)
        assert found.locations == model.locations(views)
        assert _said(found.conditions, "Available") == model.available(views)
        assert _said(found.conditions, "Progressing") == model.progressing(views)
    assert [getattr(status, name) for name in Counters.__struct_fields__] == model.counters(everything)
    assert status.deployments == len(everything)
    assert _said(status.conditions, "Progressing") == model.progressing(everything)
    assert status.summary is not None
    assert status.summary.cities == model.ready_cities(everything, WANTED)
    if trouble := model.trouble(everything):
        assert status.summary.reason == trouble


def _said(conditions: Sequence[Condition], type: str) -> model.Said:
    (found,) = (each for each in conditions if each.type == type)
    return found.status, found.reason, found.message
