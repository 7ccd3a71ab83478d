"""Watches that start with the whole list and mark its end."""

from __future__ import annotations

from tests.differential.shared import MAPS, PARTIAL, PODS, ROLES, TABLE, WORKLOADS, config_map, pod, role, workload
from tests.differential.steps import create, feature, get, watch

_INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
_X = {"group": "x"}

CASES = feature(
    "sendInitialEvents",
    roles=(
        create(ROLES, role("b")),
        create(ROLES, role("a")),
        watch(f"{ROLES}?{_INITIAL}", create(ROLES, role("c")), events=4),
    ),
    workloads=(create(WORKLOADS, workload()), watch(f"{WORKLOADS}?{_INITIAL}", events=2)),
    nothing=watch(f"{PODS}?{_INITIAL}", events=1),
    some=(
        create(MAPS, config_map("a", labels=_X)),
        create(MAPS, config_map("b")),
        watch(f"{MAPS}?{_INITIAL}&labelSelector=group=x", events=2),
    ),
    from_a_version=(
        create(PODS, pod()).keep(rv="metadata.resourceVersion"),
        watch(f"{PODS}?{_INITIAL}&resourceVersion=$rv", events=2),
    ),
    from_any_version=(create(ROLES, role()), get(ROLES), watch(f"{ROLES}?{_INITIAL}&resourceVersion=0", events=2)),
    without_bookmarks=(
        create(ROLES, role()),
        watch(f"{ROLES}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1", events=3),
    ),
    refused_events=(
        create(ROLES, role()).keep(rv="metadata.resourceVersion"),
        watch(
            f"{ROLES}?sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=$rv",
            create(ROLES, role("b")),
            events=1,
        ),
    ),
    without_a_match=watch(f"{PODS}?sendInitialEvents=true&allowWatchBookmarks=true", events=1),
    with_an_exact_match=watch(f"{PODS}?sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=5", events=1),
    not_for_lists=get(f"{PODS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
    as_a_table=(create(ROLES, role()), watch(f"{ROLES}?{_INITIAL}", events=2).accepting(TABLE)),
    as_metadata=(create(ROLES, role()), watch(f"{ROLES}?{_INITIAL}", events=2).accepting(PARTIAL)),
)
