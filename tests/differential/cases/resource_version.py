"""resourceVersion and resourceVersionMatch of reads."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, ROLES, WORKLOADS, config_map, role, workload
from tests.differential.steps import create, delete, feature, get, watch

_RV = "metadata.resourceVersion"

CASES = feature(
    "resourceVersion",
    any=(create(ROLES, role()), get(ROLES), get(f"{ROLES}?resourceVersion=0")),
    not_older_than=(
        create(ROLES, role()).keep(rv=_RV),
        get(f"{ROLES}?resourceVersion=$rv&resourceVersionMatch=NotOlderThan"),
    ),
    without_a_match_it_means_not_older_than=(
        create(ROLES, role()).keep(rv=_RV),
        delete(f"{ROLES}/a"),
        get(ROLES),
        get(f"{ROLES}?resourceVersion=$rv"),
    ),
    exact=(
        create(ROLES, role()).keep(rv=_RV),
        create(ROLES, role("b")),
        delete(f"{ROLES}/a"),
        get(f"{ROLES}?resourceVersion=$rv&resourceVersionMatch=Exact"),
    ),
    exact_for_workloads=(
        create(WORKLOADS, workload()).keep(rv=_RV),
        delete(f"{WORKLOADS}/a"),
        get(f"{WORKLOADS}?resourceVersion=$rv&resourceVersionMatch=Exact"),
    ),
    exact_zero=get(f"{PODS}?resourceVersion=0&resourceVersionMatch=Exact"),
    with_a_limit_it_is_exact=(
        create(ROLES, role()).keep(rv=_RV),
        create(ROLES, role("b")),
        get(f"{ROLES}?resourceVersion=$rv&limit=5"),
    ),
    a_match_without_a_version=get(f"{PODS}?resourceVersionMatch=Exact"),
    a_match_nobody_knows=get(f"{PODS}?resourceVersion=1&resourceVersionMatch=About"),
    a_match_on_a_watch=watch(f"{PODS}?resourceVersion=1&resourceVersionMatch=NotOlderThan", events=1),
    no_number=get(f"{PODS}?resourceVersion=abc"),
    of_the_future=get(f"{PODS}?resourceVersion=999999999"),
    one_object_of_the_future=(create(MAPS, config_map()), get(f"{MAPS}/a?resourceVersion=999999999")),
    exact_of_the_future=get(f"{PODS}?resourceVersion=999999999&resourceVersionMatch=Exact"),
)
