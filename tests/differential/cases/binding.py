"""Binding a pod to a node."""

from __future__ import annotations

from tests.differential.shared import CORE, PODS, meta, pod
from tests.differential.steps import Json, create, delete, feature, get


def _to(node: str, name: str = "a", kind: str = "Node", **metadata: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": meta(name, **metadata),
        "target": {"apiVersion": "v1", "kind": kind, "name": node},
    }


def _node(name: str, zone: str, **more: str) -> Json:
    labels = {"topology.kubernetes.io/zone": zone, **{f"topology.kubernetes.io/{key}": more[key] for key in more}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


NODES = "/api/v1/nodes"
ZONE = "north"

CASES = feature(
    "binding",
    a_pod=(create(PODS, pod()), create(f"{PODS}/a/binding", _to("n1")), get(f"{PODS}/a")),
    by_the_collection=(create(PODS, pod()), create(f"{CORE}/bindings", _to("n1")), get(f"{PODS}/a")),
    carries_annotations_over=(
        create(PODS, pod()),
        create(f"{PODS}/a/binding", _to("n1", annotations={"x": "y"}, labels={"l": "m"})),
        get(f"{PODS}/a"),
    ),
    copies_where_the_node_is=(
        create(NODES, _node("binding-n3", ZONE, region="here", rack="r1")),
        create(PODS, pod()),
        create(f"{PODS}/a/binding", _to("binding-n3", labels={"topology.kubernetes.io/region": "as told"})),
        get(f"{PODS}/a"),
        delete(f"{NODES}/binding-n3"),
    ),
    copies_over_what_the_pod_says=(
        create(NODES, _node("binding-n4", ZONE)),
        create(PODS, pod(labels={"topology.kubernetes.io/zone": "mine"})),
        create(f"{PODS}/a/binding", _to("binding-n4")),
        get(f"{PODS}/a"),
        delete(f"{NODES}/binding-n4"),
    ),
    a_pod_made_on_a_node=(
        create(NODES, _node("binding-n5", ZONE, region="here")),
        create(PODS, pod(labels={"topology.kubernetes.io/region": "mine"}, spec={"nodeName": "binding-n5"})),
        delete(f"{NODES}/binding-n5"),
    ),
    twice=(
        create(PODS, pod()),
        create(f"{PODS}/a/binding", _to("n1")),
        create(f"{PODS}/a/binding", _to("n2")),
    ),
    a_pod_that_is_not_there=create(f"{PODS}/a/binding", _to("n1")),
    a_pod_that_is_gated=(
        create(PODS, pod(spec={"schedulingGates": [{"name": "example.com/wait"}]})),
        create(f"{PODS}/a/binding", _to("n1")),
    ),
    to_something_else=(create(PODS, pod()), create(f"{PODS}/a/binding", _to("n1", kind="Cloud"))),
    to_nothing=(create(PODS, pod()), create(f"{PODS}/a/binding", _to(""))),
    under_another_name=(create(PODS, pod()), create(f"{PODS}/a/binding", _to("n1", "b"))),
    with_another_uid=(
        create(PODS, pod()),
        create(f"{PODS}/a/binding", _to("n1", uid="7b1e0f1c-0000-0000-0000-000000000000")),
    ),
    in_a_dry_run=(create(PODS, pod()), create(f"{PODS}/a/binding?dryRun=All", _to("n1")), get(f"{PODS}/a")),
    a_pod_that_is_going=(
        create(PODS, pod(finalizers=["example.com/wait"])),
        delete(f"{PODS}/a"),
        create(f"{PODS}/a/binding", _to("n1")),
    ),
    cannot_be_read=(create(PODS, pod()), get(f"{PODS}/a/binding")),
)
