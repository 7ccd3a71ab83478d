"""PUT of one object."""

from __future__ import annotations

from tests.differential.shared import (
    BINDINGS,
    LEASES,
    MAPS,
    PODS,
    ROLES,
    SECRETS,
    SERVICES,
    WORKLOADS,
    config_map,
    pod,
    role,
    role_binding,
    service,
    workload,
)
from tests.differential.steps import MERGE_PATCH, create, feature, get, patch, put

_LEASE = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}
_RV = "metadata.resourceVersion"

_MIRROR = {"kubernetes.io/config.mirror": "x"}
_MARK = {"metadata": {"annotations": _MIRROR}}
_MIRROR_POD = pod(
    spec={"nodeName": "n1", "serviceAccountName": "", "automountServiceAccountToken": None}, annotations=_MIRROR
)

CASES = feature(
    "update",
    that_makes_a_pod_a_mirror=(
        create(PODS, pod(spec={"nodeName": "n1"})),
        patch(MERGE_PATCH, f"{PODS}/a", _MARK),
        patch(MERGE_PATCH, f"{PODS}/a/status", _MARK),
    ),
    that_makes_a_mirror_another=(
        create(PODS, _MIRROR_POD),
        patch(MERGE_PATCH, f"{PODS}/a", {"metadata": {"annotations": {"kubernetes.io/config.mirror": "y"}}}),
        patch(MERGE_PATCH, f"{PODS}/a", {"metadata": {"annotations": None}}),
        patch(MERGE_PATCH, f"{PODS}/a/status", {"metadata": {"annotations": None}}),
    ),
    a_config_map=(
        create(MAPS, config_map(data={"k": "v"})).keep(rv=_RV),
        put(f"{MAPS}/a", config_map(data={"k": "w", "l": "x"}, resourceVersion="$rv")),
        get(f"{MAPS}/a"),
    ),
    without_a_version=(create(MAPS, config_map(data={"k": "v"})), put(f"{MAPS}/a", config_map(data={"k": "w"}))),
    a_workload_without_a_version=(create(WORKLOADS, workload()), put(f"{WORKLOADS}/a", workload(replicas=2))),
    a_workload=(
        create(WORKLOADS, workload()).keep(rv=_RV),
        put(f"{WORKLOADS}/a", workload(replicas=2, resourceVersion="$rv")),
    ),
    with_an_old_version=(
        create(MAPS, config_map(data={"k": "v"})).keep(rv=_RV),
        put(f"{MAPS}/a", config_map(data={"k": "w"})),
        put(f"{MAPS}/a", config_map(data={"k": "x"}, resourceVersion="$rv")),
    ),
    a_workload_with_an_old_version=(
        create(WORKLOADS, workload()).keep(rv=_RV),
        put(f"{WORKLOADS}/a", workload(replicas=2, resourceVersion="$rv")),
        put(f"{WORKLOADS}/a", workload(replicas=3, resourceVersion="$rv")),
    ),
    with_nothing_changed=(
        create(MAPS, config_map(data={"k": "v"})).keep(rv=_RV),
        put(f"{MAPS}/a", config_map(data={"k": "v"}, resourceVersion="$rv")),
    ),
    with_another_uid=(
        create(MAPS, config_map()),
        put(f"{MAPS}/a", config_map(uid="7b1e0f1c-0000-0000-0000-000000000000")),
    ),
    under_another_name=(create(MAPS, config_map()), put(f"{MAPS}/a", config_map("b"))),
    of_nothing=put(f"{MAPS}/a", config_map()),
    a_workload_that_is_not_there=put(f"{WORKLOADS}/a", workload(resourceVersion="1")),
    that_creates_a_lease=(put(f"{LEASES}/a", _LEASE), put(f"{LEASES}/a", _LEASE)),
    a_role=(create(ROLES, role()), put(f"{ROLES}/a", role(rules=[]))),
    the_image_of_a_pod=(
        create(PODS, pod()),
        put(f"{PODS}/a", pod(spec={"containers": [{"name": "main", "image": "registry.example/app:2"}]})),
    ),
    what_a_pod_may_not_change=(
        create(PODS, pod()),
        put(f"{PODS}/a", pod(spec={"containers": [{"name": "other", "image": "registry.example/app:2"}]})),
    ),
    a_service_keeps_its_address=(
        create(SERVICES, service()),
        put(f"{SERVICES}/a", service(spec={"ports": [{"port": 81}]})),
    ),
    the_address_of_a_service=(
        create(SERVICES, service()).keep(rv=_RV),
        put(f"{SERVICES}/a", service(spec={"clusterIP": "None"}, resourceVersion="$rv")),
    ),
    an_immutable_config_map=(
        create(MAPS, {**config_map(data={"k": "v"}), "immutable": True}),
        put(f"{MAPS}/a", config_map(data={"k": "w"})),
    ),
    to_something_invalid=(create(MAPS, config_map()), put(f"{MAPS}/a", config_map(data={"bad key": "v"}))),
    that_creates_a_service=put(f"{SERVICES}/a", service()),
    the_type_of_a_secret=(
        create(SECRETS, {"metadata": {"name": "a"}, "type": "example.com/x"}),
        put(f"{SECRETS}/a", {"metadata": {"name": "a"}, "type": "example.com/y"}),
    ),
    text_into_a_secret=(
        create(SECRETS, {"metadata": {"name": "a"}, "data": {"k": "dg=="}, "stringData": {"l": "w"}}),
        put(f"{SECRETS}/a", {"metadata": {"name": "a"}, "stringData": {"k": "x"}}),
    ),
    the_role_of_a_binding=(
        create(BINDINGS, role_binding("a", "view")),
        put(f"{BINDINGS}/a", role_binding("a", "edit")),
    ),
    by_a_program_with_a_long_name=(
        create(MAPS, config_map()).having({"User-Agent": "kubectl/v1.35.0 (linux/amd64) kubernetes/abc"}),
        put(f"{MAPS}/a", config_map(data={"k": "v"})).having({"User-Agent": "Mozilla/5.0 (X11)"}),
    ),
    of_managed_fields=(
        create(MAPS, config_map(data={"k": "v"})),
        put(f"{MAPS}/a", config_map(data={"k": "v"}, managedFields=[{}])),
        put(f"{MAPS}/a", config_map(data={"k": "w"})),
    ),
)
