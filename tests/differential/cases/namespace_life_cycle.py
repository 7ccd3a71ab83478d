"""Namespaces: the API server's part, without the controller that empties them."""

from __future__ import annotations

from tests.differential.shared import MAPS, config_map, meta
from tests.differential.steps import MERGE_PATCH, Json, create, delete, feature, get, patch, put

_SPACES = "/api/v1/namespaces"
# The case keeps its namespace from being emptied and removed before the comparison.
_HELD = create(_SPACES, {"metadata": meta("$ns-held"), "spec": {"finalizers": ["kubernetes", "example.com/wait"]}})
_TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
_INSIDE = f"{_SPACES}/$ns-held/configmaps"


def _phase(body: Json) -> Json:
    keys = ("name", "labels", "deletionTimestamp")
    return [body["kind"], {key: body["metadata"].get(key) for key in keys}, body["spec"], body["status"]["phase"]]


CASES = feature(
    "namespace life cycle",
    create=create(_SPACES, {"metadata": meta("$ns-b", labels={"x": "y"})}),
    exists_already=create(_SPACES, {"metadata": meta("$ns")}),
    bad_name=create(_SPACES, {"metadata": meta("Bad.Name")}),
    label_of_the_name_cannot_go=(
        create(_SPACES, {"metadata": meta("$ns-b")}),
        patch(MERGE_PATCH, f"{_SPACES}/$ns-b", {"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}}),
    ),
    delete_makes_it_terminating=(_HELD, delete(f"{_SPACES}/$ns-held").viewing(_phase)),
    delete_twice=(_HELD, delete(f"{_SPACES}/$ns-held").viewing(_phase), delete(f"{_SPACES}/$ns-held").viewing(_phase)),
    nothing_new_in_one_that_goes=(
        _HELD,
        create(_INSIDE, config_map(finalizers=["example.com/wait"])),
        delete(f"{_SPACES}/$ns-held").viewing(_phase),
        create(_INSIDE, config_map("b")),
    ),
    no_tokens_in_one_that_goes=(
        _HELD,
        create(f"{_SPACES}/$ns-held/serviceaccounts", {"metadata": meta("robot", finalizers=["example.com/wait"])}),
        delete(f"{_SPACES}/$ns-held").viewing(_phase),
        create(f"{_SPACES}/$ns-held/serviceaccounts/robot/token", _TOKEN),
    ),
    nothing_in_one_that_is_not_there=create(f"{_SPACES}/nowhere/configmaps", config_map()),
    kube_system_stays=delete(f"{_SPACES}/kube-system"),
    default_stays=delete(f"{_SPACES}/default"),
    finalize=(
        _HELD,
        put(
            f"{_SPACES}/$ns-held/finalize", {"metadata": meta("$ns-held"), "spec": {"finalizers": ["kubernetes"]}}
        ).viewing(_phase),
    ),
    one_without_finalizers_terminates_first=(
        _HELD,
        put(f"{_SPACES}/$ns-held/finalize", {"metadata": meta("$ns-held"), "spec": {"finalizers": []}}).viewing(_phase),
        delete(f"{_SPACES}/$ns-held").viewing(_phase),
        delete(f"{_SPACES}/$ns-held").viewing(_phase),
        get(f"{_SPACES}/$ns-held"),
    ),
    bad_finalizer=create(_SPACES, {"metadata": meta("$ns-b"), "spec": {"finalizers": ["nonsense"]}}),
    finalizers_change_only_by_finalize=(
        _HELD,
        put(f"{_SPACES}/$ns-held", {"metadata": meta("$ns-held"), "spec": {"finalizers": []}}).viewing(_phase),
    ),
    not_there=get(f"{_SPACES}/nowhere"),
    cannot_be_deleted_all_at_once=delete(f"{_SPACES}?labelSelector=no=where"),
    objects_outlive_no_move=(create(MAPS, config_map()), put(f"{MAPS}/a", config_map(namespace="default"))),
)
