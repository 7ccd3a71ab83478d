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


CASES = feature(
    "binding",
    a_pod=(create(PODS, pod()), create(f"{PODS}/a/binding", _to("n1")), get(f"{PODS}/a")),
    by_the_collection=(create(PODS, pod()), create(f"{CORE}/bindings", _to("n1")), get(f"{PODS}/a")),
    carries_annotations_over=(
        create(PODS, pod()),
        create(f"{PODS}/a/binding", _to("n1", annotations={"x": "y"}, labels={"l": "m"})),
        get(f"{PODS}/a"),
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
