"""Lists in pages over one snapshot."""

from __future__ import annotations

from tests.differential.shared import MAPS, PARTIAL_LIST, PODS, ROLES, TABLE, WORKLOADS, config_map, pod, role, workload
from tests.differential.steps import create, delete, feature, get

_X = {"group": "x"}
_MAPS = tuple(create(MAPS, config_map(name, labels=_X)) for name in ("a", "b", "c", "d", "e"))
_ROLES = tuple(create(ROLES, role(name)) for name in ("a", "b", "c"))
_NEXT = "metadata.continue"

_EVERYWHERE = "/apis/rbac.authorization.k8s.io/v1/roles"

CASES = feature(
    "limit and continue",
    page_by_page=(
        *_ROLES,
        get(f"{ROLES}?limit=2").keep(more=_NEXT),
        get(f"{ROLES}?limit=2&continue=$more"),
    ),
    workloads=(
        *(create(WORKLOADS, workload(name)) for name in ("a", "b", "c")),
        get(f"{WORKLOADS}?limit=1").keep(more=_NEXT),
        get(f"{WORKLOADS}?limit=1&continue=$more").keep(more=_NEXT),
        get(f"{WORKLOADS}?limit=1&continue=$more"),
    ),
    pods_in_one_page=(create(PODS, pod()), get(f"{PODS}?limit=1")),
    with_a_selector_the_rest_is_unknown=(
        *_MAPS,
        get(f"{MAPS}?labelSelector=group=x&limit=2").keep(more=_NEXT),
        get(f"{MAPS}?labelSelector=group=x&limit=2&continue=$more").keep(more=_NEXT),
        get(f"{MAPS}?labelSelector=group=x&limit=2&continue=$more"),
    ),
    writes_between_pages_do_not_show=(
        *_ROLES,
        get(f"{ROLES}?limit=1").keep(more=_NEXT),
        delete(f"{ROLES}/b"),
        create(ROLES, role("bb")),
        get(f"{ROLES}?limit=9&continue=$more"),
    ),
    the_rest_at_once=(*_ROLES, get(f"{ROLES}?limit=1").keep(more=_NEXT), get(f"{ROLES}?continue=$more")),
    as_a_table=(*_ROLES, get(f"{ROLES}?limit=2").accepting(TABLE)),
    a_token_nobody_gave=get(f"{MAPS}?limit=1&continue=nonsense"),
    a_token_with_a_version=(
        *_ROLES,
        get(f"{ROLES}?limit=1").keep(more=_NEXT),
        get(f"{ROLES}?limit=1&continue=$more&resourceVersion=1"),
    ),
    a_limit_that_is_no_number=get(f"{ROLES}?limit=many"),
    a_negative_limit=(*_ROLES, get(f"{ROLES}?limit=-1")),
    at_any_version_the_limit_does_not_bind=(*_ROLES, get(ROLES), get(f"{ROLES}?limit=1&resourceVersion=0")),
    over_all_namespaces=(
        create(ROLES, role("a", labels={"of": "$ns"})),
        create(ROLES, role("b", labels={"of": "$ns"})),
        create(ROLES, role("c")),
        get(f"{_EVERYWHERE}?labelSelector=of=$ns&limit=1").keep(more=_NEXT),
        get(f"{_EVERYWHERE}?labelSelector=of=$ns&limit=1&continue=$more"),
    ),
    as_metadata=(*_ROLES, get(f"{ROLES}?limit=2").accepting(PARTIAL_LIST)),
    exactly_as_many_as_there_are=(*_ROLES, get(f"{ROLES}?limit=3")),
)
