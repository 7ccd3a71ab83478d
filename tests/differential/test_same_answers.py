"""Sends the same requests to the real kube-apiserver and to ours, and compares the visible parts of the responses."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.differential.allowed import ALLOWED, Allowed
from tests.differential.cases import all_cases
from tests.differential.comparing import Difference, differences, report
from tests.differential.conftest import Pair
from tests.differential.playing import play
from tests.differential.steps import Case

pytestmark = pytest.mark.peers

CASES = all_cases()
FEATURES = (
    "discovery", "OpenAPI", "version and health", "create", "get", "list", "update", "delete", "deletecollection",
    "watch", "JSON patch", "merge patch", "strategic merge patch", "server-side apply", "dryRun", "fieldValidation",
    "generateName", "limit and continue", "resourceVersion", "sendInitialEvents", "bookmarks", "selectors", "Table",
    "PartialObjectMetadata", "status", "scale", "binding", "eviction", "token", "finalizers", "propagation policy",
    "generation", "namespace life cycle", "events", "JSON bodies", "YAML bodies", "protobuf bodies", "errors",
    "pod security", "pod streams", "details", "endpoints", "pod controllers", "recorded", "network policies",
    "volume drivers", "autoscalers of version 1",
)  # fmt: skip
LEAST_OF_EACH = 6
LEAST_IN_ALL = 150

# kube-apiserver enforces labels of a namespace from a cache: a request right behind the patch may meet the old ones.
CACHED = {"pod security": 4}
"""Features that are played again, in a fresh namespace, up to so many times."""

_played: set[str] = set()
_used: set[Allowed] = set()


@pytest.mark.parametrize(("number", "case"), list(enumerate(CASES)), ids=[case.id for case in CASES])
def test_the_servers_agree(pair: Pair, number: int, case: Case) -> None:
    _played.add(case.id)
    found: list[Difference] = []
    for attempt in range(CACHED.get(case.feature, 1)):
        with ThreadPoolExecutor(2) as both:
            real, ours = both.map(partial(play, case, f"case-{number}-{attempt}"), (pair.real, pair.ours))
        found = [each for each in differences(real, ours) if not _is_allowed(case, each.where)]
        if not found:
            return
    pytest.fail(report(case, found))


def _is_allowed(case: Case, where: str) -> bool:
    entries = {entry for entry in ALLOWED if entry.covers(case.id, where)}
    _used.update(entries)
    return bool(entries)


def test_every_feature_has_its_cases(capsys: pytest.CaptureFixture[str]) -> None:
    counts = Counter(case.feature for case in CASES)
    with capsys.disabled():
        print(
            "\ndifferential cases:", ", ".join(f"{name} {counts[name]}" for name in FEATURES), f"({len(CASES)} in all)"
        )
    assert set(counts) == set(FEATURES)
    assert not [name for name in FEATURES if counts[name] < LEAST_OF_EACH]
    assert len(CASES) >= LEAST_IN_ALL
    assert len({case.id for case in CASES}) == len(CASES)


def test_every_allowance_is_needed(pair: Pair) -> None:
    if len(_played) < len(CASES):
        pytest.skip("NOT RUN: only some cases were played")
    assert [entry.reason for entry in ALLOWED if entry not in _used] == []
