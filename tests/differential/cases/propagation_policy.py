"""Deletes with dependents: the API server's response, before any collector acts."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, ROLES, WORKLOADS, config_map, pod, role, workload
from tests.differential.steps import create, delete, feature, get

_MAP = create(MAPS, config_map(finalizers=["example.com/wait"]))

CASES = feature(
    "propagation policy",
    foreground=(_MAP, delete(f"{MAPS}/a?propagationPolicy=Foreground")),
    orphan=(_MAP, delete(f"{MAPS}/a?propagationPolicy=Orphan")),
    background=(_MAP, delete(f"{MAPS}/a?propagationPolicy=Background")),
    in_the_body=(_MAP, delete(f"{MAPS}/a", {"propagationPolicy": "Foreground"})),
    of_a_workload=(
        create(WORKLOADS, workload(finalizers=["example.com/wait"])),
        delete(f"{WORKLOADS}/a", {"propagationPolicy": "Foreground"}),
    ),
    of_a_pod=(create(PODS, pod(finalizers=["example.com/wait"])), delete(f"{PODS}/a?propagationPolicy=Foreground")),
    the_old_way_to_orphan=(_MAP, delete(f"{MAPS}/a?orphanDependents=true")),
    the_old_way_not_to=(_MAP, delete(f"{MAPS}/a?orphanDependents=false")),
    both_ways_at_once=(_MAP, delete(f"{MAPS}/a?orphanDependents=true&propagationPolicy=Orphan")),
    a_policy_nobody_knows=(_MAP, delete(f"{MAPS}/a?propagationPolicy=Sideways")),
    in_a_dry_run=(
        create(ROLES, role()),
        delete(f"{ROLES}/a?propagationPolicy=Foreground&dryRun=All"),
        get(f"{ROLES}/a"),
    ),
    changing_its_mind=(
        _MAP,
        delete(f"{MAPS}/a?propagationPolicy=Foreground"),
        delete(f"{MAPS}/a?propagationPolicy=Orphan"),
    ),
)
