"""Label and field selectors."""

from __future__ import annotations

from tests.differential.shared import (
    EVENTS,
    MAPS,
    PODS,
    ROLES,
    SECRETS,
    SERVICES,
    WORKLOADS,
    config_map,
    pod,
    role,
    service,
    workload,
)
from tests.differential.steps import Json, create, feature, get


def _names(body: Json) -> Json:
    return [item["metadata"]["name"] for item in body["items"]]


_ROLES = (
    create(ROLES, role("a", labels={"app": "x", "tier": "front"})),
    create(ROLES, role("b", labels={"app": "y", "tier": "back"})),
    create(ROLES, role("c", labels={"app": "x"})),
    create(ROLES, role("d")),
)


def _some(selector: str) -> tuple[Json, ...]:
    return (*_ROLES, get(f"{ROLES}?labelSelector={selector}").viewing(_names))


CASES = feature(
    "selectors",
    equal=_some("app=x"),
    equal_twice=_some("app==x,tier=front"),
    unequal=_some("app!=x"),
    one_of=_some("app%20in%20(x,y)"),
    none_of=_some("app%20notin%20(x)"),
    present=_some("tier"),
    absent=_some("!tier"),
    the_first_of_two=_some("app=x&labelSelector=app=y"),
    the_first_of_two_is_empty=_some("&labelSelector=app=y"),
    the_first_of_two_fields=(
        *_ROLES,
        get(f"{ROLES}?fieldSelector=metadata.name=b&fieldSelector=metadata.name=a").viewing(_names),
    ),
    by_name=(*_ROLES, get(f"{ROLES}?fieldSelector=metadata.name=b").viewing(_names)),
    not_by_name=(*_ROLES, get(f"{ROLES}?fieldSelector=metadata.name!=b").viewing(_names)),
    by_namespace=(*_ROLES, get(f"{ROLES}?fieldSelector=metadata.namespace=$ns,metadata.name=a").viewing(_names)),
    pods_by_phase=(create(PODS, pod()), get(f"{PODS}?fieldSelector=status.phase=Pending").viewing(_names)),
    pods_by_node=(
        create(PODS, pod("a", {"nodeName": "n1"})),
        create(PODS, pod("b")),
        get(f"{PODS}?fieldSelector=spec.nodeName=n1,spec.restartPolicy=Always").viewing(_names),
        get(f"{PODS}?fieldSelector=spec.nodeName=").viewing(_names),
    ),
    services_by_type=(
        create(SERVICES, service()),
        get(f"{SERVICES}?fieldSelector=spec.type=ClusterIP").viewing(_names),
    ),
    secrets_by_type=(
        create(SECRETS, {"metadata": {"name": "a"}, "type": "example.com/x"}),
        get(f"{SECRETS}?fieldSelector=type=example.com/x").viewing(_names),
    ),
    events_by_object=(
        create(
            EVENTS,
            {
                "metadata": {"name": "e"},
                "involvedObject": {"kind": "Pod", "name": "p", "namespace": "$ns"},
                "reason": "R",
            },
        ),
        get(f"{EVENTS}?fieldSelector=involvedObject.name=p,reason=R").viewing(_names),
    ),
    workloads_by_label_and_name=(
        create(WORKLOADS, workload("a", labels={"app": "x"})),
        create(WORKLOADS, workload("b", labels={"app": "x"})),
        get(f"{WORKLOADS}?labelSelector=app=x&fieldSelector=metadata.name=b").viewing(_names),
    ),
    a_field_that_cannot_select=get(f"{MAPS}?fieldSelector=data.k=v"),
    a_pod_field_that_cannot_select=get(f"{PODS}?fieldSelector=spec.hostname=x"),
    a_workload_field_that_cannot_select=get(f"{WORKLOADS}?fieldSelector=spec.paused=true"),
    a_label_selector_nobody_can_read=get(f"{MAPS}?labelSelector=a%20b"),
    a_label_selector_with_a_bad_value=get(f"{MAPS}?labelSelector=a=-x-"),
    a_label_selector_with_an_open_set=get(f"{MAPS}?labelSelector=a%20in%20(x"),
    a_field_selector_nobody_can_read=get(f"{MAPS}?fieldSelector=metadata.name"),
    a_name_that_differs_from_the_selector=(
        create(MAPS, config_map()),
        get(f"{MAPS}/a?fieldSelector=metadata.name=b"),
    ),
)
