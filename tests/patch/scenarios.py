"""Sequences of writes with results recorded from a real kube-apiserver.

A scenario is a sequence of requests for one object, each step with its manager. `record` plays them against a server;
`test_recorded` compares this package's results of the same requests, step by step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tarmac.api.schema import JsonObject

NAME = "story"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Step(NamedTuple):
    """One request. `body` of create, update and apply has no common fields of the kind."""

    verb: str  # create, update, merge, json, strategic, apply
    manager: str
    body: Any
    force: bool = False
    subresource: str = ""


class Scenario(NamedTuple):
    """The requests for one object."""

    kind: str
    steps: list[Step]


def create(manager: str, **body: Any) -> Step:
    """POST."""
    return Step("create", manager, body)


def update(manager: str, subresource: str = "", **body: Any) -> Step:
    """PUT."""
    return Step("update", manager, body, subresource=subresource)


def apply(manager: str, *, force: bool = False, subresource: str = "", **body: Any) -> Step:
    """Server-side apply."""
    return Step("apply", manager, body, force, subresource)


def merge(manager: str, body: Any, subresource: str = "") -> Step:
    """Merge patch."""
    return Step("merge", manager, body, subresource=subresource)


def strategic(manager: str, body: Any, subresource: str = "") -> Step:
    """Strategic merge patch."""
    return Step("strategic", manager, body, subresource=subresource)


def json_patch(manager: str, *operations: Any) -> Step:
    """JSON patch."""
    return Step("json", manager, list(operations))


def op(name: str, path: str, **rest: Any) -> JsonObject:
    """One operation of a JSON patch."""
    return {"op": name, "path": path, **rest}


def _container(name: str, **more: Any) -> JsonObject:
    return {"name": name, "image": "i1", **more}


def _deployment(*containers: JsonObject, **spec: Any) -> JsonObject:
    """The spec of a Deployment; keywords go into its pod template."""
    pod = {"containers": list(containers), **spec}
    labels = {"app": "x"}
    return {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}


def _template(**spec: Any) -> JsonObject:
    return {"spec": {"template": {"spec": spec}}}


_ORDERED = "$setElementOrder/containers"
_CONFIG = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{},"name":"story"},"data":{"a":"1","b":"1"}}'

SCENARIOS: dict[str, Scenario] = {
    "whoever changes a field owns it": Scenario(
        "ConfigMap",
        [
            create("one", data={"a": "1", "b": "1"}, metadata={"labels": {"l": "1"}}),
            merge("two", {"data": {"b": "2", "c": "2"}}),
            update("three", data={"a": "1", "c": "2"}, metadata={"labels": {"l": "1"}}),
            merge("two", {"data": None, "metadata": {"labels": None}}),
        ],
    ),
    "a write that changes nothing changes no entry": Scenario(
        "ConfigMap",
        [
            create("one", data={"a": "1"}),
            update("two", data={"a": "1"}),
            apply("three", data={"a": "1"}),
            apply("three", data={"a": "1"}),
            merge("two", {}),
        ],
    ),
    "an applier adds, changes and takes back": Scenario(
        "ConfigMap",
        [
            apply("one", data={"a": "1", "b": "1"}, metadata={"labels": {"l": "1"}, "annotations": {"n": "1"}}),
            merge("two", {"data": {"c": "2"}, "metadata": {"annotations": {"m": "2"}}}),
            apply("one", data={"a": "2"}),
            apply("one"),
        ],
    ),
    "conflicts name the owners": Scenario(
        "ConfigMap",
        [
            create("one", data={"a": "1", "b": "1", "c": "1"}),
            apply("two", data={"a": "2"}),
            merge("three", {"data": {"b": "3"}}),
            apply("four", data={"d": "4"}),
            apply("two", data={"a": "2", "b": "2", "c": "2", "d": "2"}),
            apply("two", force=True, data={"a": "2", "b": "2", "c": "2", "d": "2"}),
            apply("two"),
        ],
    ),
    "appliers share what they agree on": Scenario(
        "ConfigMap",
        [
            apply("one", data={"a": "1"}),
            apply("two", data={"a": "1"}),
            apply("one", data={"a": "2"}),
            apply("one"),
            apply("two"),
        ],
    ),
    "managers can be forgotten": Scenario(
        "ConfigMap",
        [
            create("one", data={"a": "1"}, metadata={"labels": {"l": "1"}}),
            merge("two", {"metadata": {"managedFields": [{}]}, "data": {"b": "2"}}),
            update("two", data={"a": "2"}),
            apply("three", data={"a": "2", "c": "3"}),
            merge("two", {"metadata": {"managedFields": []}}),
        ],
    ),
    "a client may edit the managers": Scenario(
        "ConfigMap",
        [
            create("one", data={"a": "1", "b": "1"}),
            merge(
                "two",
                {
                    "metadata": {
                        "managedFields": [
                            {
                                "manager": "new",
                                "operation": "Apply",
                                "apiVersion": "v1",
                                "fieldsType": "FieldsV1",
                                "fieldsV1": {"f:data": {"f:b": {}, "f:a": {}, "x:unknown": {}}},
                            },
                            {
                                "manager": "old",
                                "operation": "Update",
                                "apiVersion": "v7",
                                "fieldsType": "FieldsV1",
                                "fieldsV1": {"f:data": {"f:b": {}}},
                            },
                        ]
                    }
                },
            ),
            merge("two", {"metadata": {"managedFields": [{"manager": "nonsense"}]}, "data": {"b": "2"}}),
            apply("new", data={"a": "1"}),
        ],
    ),
    "the eleventh updater pushes the oldest together": Scenario(
        "ConfigMap",
        [
            create("m00", data={"k00": "1"}),
            *(merge(f"m{number:02}", {"data": {f"k{number:02}": "1"}}) for number in range(1, 13)),
            merge("m03", {"data": {"k03": "2"}}),
        ],
    ),
    "kubectl takes over from its client-side apply": Scenario(
        "ConfigMap",
        [
            create(
                "kubectl-client-side-apply",
                data={"a": "1", "b": "1"},
                metadata={"annotations": {LAST_APPLIED: _CONFIG + "\n"}},
            ),
            apply("kubectl", data={"a": "2", "b": "1"}),
            merge("other", {"data": {"b": "3"}}),
            apply("kubectl", data={"a": "2", "b": "4"}),
            apply("kubectl", force=True, data={"b": "<4>"}),
        ],
    ),
    "another applier does not": Scenario(
        "ConfigMap",
        [
            create(
                "kubectl-client-side-apply",
                data={"a": "1", "b": "1"},
                metadata={"annotations": {LAST_APPLIED: _CONFIG + "\n"}},
            ),
            apply("flux", data={"a": "2"}),
        ],
    ),
    "JSON patch": Scenario(
        "ConfigMap",
        [
            create("one", data={"a": "1", "b": "1"}, metadata={"finalizers": ["x.io/a"], "annotations": {"x/y": "1"}}),
            json_patch(
                "two", op("add", "/data/c", value="2"), op("remove", "/data/a"), op("test", "/data/c", value="2")
            ),
            json_patch(
                "two", op("move", "/data/m", **{"from": "/data/b"}), op("copy", "/data/n", **{"from": "/data/m"})
            ),
            json_patch("two", op("replace", "/data/none", value="new")),
            json_patch("two", op("remove", "/data/none/deep")),
            json_patch("two", op("remove", "/data/never")),
            json_patch("two", op("test", "/data/m", value="other"), op("remove", "/data/m")),
            json_patch(
                "two", op("test", "/data/never", value=None), op("add", "/metadata/finalizers/-", value="x.io/b")
            ),
            json_patch(
                "two", op("add", "/metadata/finalizers/0", value="x.io/c"), op("remove", "/metadata/finalizers/-1")
            ),
            json_patch("two", op("add", "/metadata/finalizers/9", value="x.io/d")),
            json_patch("two", op("replace", "/metadata/annotations/x~1y", value="2")),
            json_patch("two", op("invent", "/data")),
            json_patch("two", {"op": "remove"}),
        ],
    ),
    "patches that are none": Scenario(
        "ConfigMap",
        [
            create("one", data={"a": "1"}),
            Step("json", "two", {"op": "remove"}),
            Step("json", "two", ["remove"]),
            Step("json", "two", [{"op": 1, "path": "/data"}]),
            Step("json", "two", None),
            merge("two", []),
            merge("two", None),
            merge("two", "text"),
            strategic("two", []),
            strategic("two", {"$patch": "foo"}),
            strategic("two", {"$retainKeys": "data"}),
            strategic("two", {"$deleteFromPrimitiveListdata": ["x"]}),
            strategic("two", {"$setElementOrder/data": "x"}),
        ],
    ),
    "configurations that are none": Scenario(
        "ConfigMap",
        [
            apply("one", kind="Secret"),
            apply("one", apiVersion="v2"),
            apply("one", metadata={"managedFields": []}),
            apply("one", unknown=1),
            apply("one", data={"a": 1}),
            apply("one", data=["a"]),
            apply("one", immutable="yes"),
            apply("one", metadata={"labels": "x"}),
        ],
    ),
    "strategic merge of items by name": Scenario(
        "ServiceAccount",
        [
            create("one", secrets=[{"name": "a"}, {"name": "b"}], imagePullSecrets=[{"name": "p"}]),
            strategic("two", {"secrets": [{"name": "c"}, {"name": "a"}]}),
            strategic("two", {"secrets": [{"name": "b", "$patch": "delete"}, {"name": "d"}]}),
            strategic("two", {"secrets": [{"$patch": "replace"}, {"name": "e"}]}),
            strategic("two", {"secrets": [{"name": "f"}], "$setElementOrder/secrets": [{"name": "f"}, {"name": "e"}]}),
            strategic("two", {"imagePullSecrets": [{"name": "q"}]}),
            strategic("two", {"metadata": {"finalizers": ["x.io/b", "x.io/a"]}}),
            strategic("two", {"metadata": {"finalizers": ["x.io/c", "x.io/a"]}}),
            strategic("two", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a"]}}),
            strategic("two", {"metadata": {"labels": {"l": "1", "m": None}}}),
            strategic("two", {"metadata": {"labels": {"$patch": "replace", "n": "1"}}}),
            strategic("two", {"metadata": {"labels": {"$patch": "delete"}}}),
            strategic("two", {"secrets": [{"namespace": "nameless"}]}),
            strategic("two", {"secrets": [{"$patch": "delete"}]}),
            strategic("two", {"secrets": None}),
        ],
    ),
    "strategic merge of a pod template": Scenario(
        "Deployment",
        [
            create("one", spec=_deployment(_container("a"), _container("b"), volumes=[{"name": "v", "emptyDir": {}}])),
            strategic("two", _template(containers=[_container("c"), {"name": "a", "image": "i2"}])),
            strategic("two", _template(**{_ORDERED: [{"name": "b"}, {"name": "a"}]})),
            strategic(
                "two",
                _template(**{_ORDERED: [{"name": "d"}, {"name": "a"}], "containers": [_container("d"), {"name": "a"}]}),
            ),
            strategic("two", _template(**{_ORDERED: [{"name": "z"}], "containers": [{"name": "a"}]})),
            strategic("two", _template(containers=[{"name": "a", "ports": [{"containerPort": 80}]}])),
            strategic(
                "two",
                _template(
                    volumes=[{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}],
                    containers=[{"name": "b", "$patch": "delete"}],
                ),
            ),
            strategic("two", {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            strategic("two", _template(nodeSelector={"x": "1"}, tolerations=[{"operator": "Exists"}])),
            strategic("two", _template(nodeSelector={"y": "1"}, tolerations=[{"key": "k", "operator": "Exists"}])),
            strategic("two", _template(volumes=[{"name": "v", "$retainKeys": ["name"], "emptyDir": {}}])),
        ],
    ),
    "applying a pod template": Scenario(
        "Deployment",
        [
            apply("one", spec=_deployment(_container("a", env=[{"name": "E", "value": "1"}]), _container("b"))),
            apply("two", spec={"template": {"spec": {"containers": [_container("s")]}}}),
            apply("one", spec=_deployment(_container("b"), _container("n"), _container("a"))),
            merge("three", {"spec": {"replicas": 3}}),
            apply("one", spec={"replicas": 2, **_deployment(_container("a"))}),
            apply("one", force=True, spec={"replicas": 2, **_deployment(_container("a"))}),
            apply("two"),
            apply("one", spec=_deployment(_container("a"), _container("a"))),
            apply("one", spec=_deployment(_container("a", ports=[{"containerPort": 80}, {"containerPort": "x"}]))),
            apply("one", spec=_deployment(_container("a", env=[None]))),
            apply("one", spec=_deployment(_container("a"), tolerations="none")),
            apply("one", force=True, spec={"replicas": None, **_deployment(_container("a"))}),
        ],
    ),
    "lists by two keys keep their order": Scenario(
        "Service",
        [
            create(
                "one", spec={"ports": [{"name": "b", "port": 443}, {"name": "a", "port": 80}], "selector": {"a": "b"}}
            ),
            apply("two", spec={"ports": [{"name": "u", "port": 53, "protocol": "UDP"}]}),
            apply("two", spec={"ports": [{"name": "n", "port": 9000}, {"name": "u", "port": 53, "protocol": "UDP"}]}),
            apply("two", spec={"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 443}]}),
            apply("three", spec={"selector": {"c": "d"}}),
            apply("three", force=True, spec={"selector": {"c": "d"}}),
            strategic("one", {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}}),
        ],
    ),
    "status has managers of its own": Scenario(
        "Node",
        [
            create("one", metadata={"labels": {"l": "1"}}, spec={"unschedulable": True, "podCIDR": "10.1.0.0/24"}),
            strategic(
                "kubelet",
                {"status": {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "2"}}},
                "status",
            ),
            strategic(
                "kubelet",
                {
                    "metadata": {"labels": {"l": "2"}},
                    "status": {
                        "conditions": [{"type": "Disk", "status": "False"}, {"type": "Ready", "status": "False"}]
                    },
                },
                "status",
            ),
            apply("agent", subresource="status", status={"capacity": {"cpu": "4"}}),
            apply("agent", subresource="status", force=True, status={"capacity": {"cpu": "4", "memory": "1Gi"}}),
            apply("agent", status={"capacity": {"cpu": "8"}}, metadata={"annotations": {"a": "1"}}),
            apply("agent", subresource="status", status={}),
            merge("one", {"spec": {"unschedulable": None, "taints": [{"key": "k", "effect": "NoSchedule"}]}}),
        ],
    ),
    "a custom kind": Scenario(
        "Widget",
        [
            create("one", spec={"size": 1, "tags": ["b", "a<b"], "free": {"deep": {"list": [1], "n": None}}}),
            apply("two", spec={"parts": [{"name": "p"}, {"name": "p", "slot": 10}, {"name": "p", "slot": 9}]}),
            apply("two", spec={"parts": [{"name": "p", "slot": 1, "options": {"o": "1"}}], "tags": ["c", "b"]}),
            apply("three", spec={"free": {"deep": {"list": [2]}, "other": {}}, "whole": {"a": "1"}}),
            apply("three", force=True, spec={"free": {"deep": {"list": [2]}, "other": {}}, "whole": {"a": "1"}}),
            apply("two", spec={"whole": {"b": "1"}}),
            merge("one", {"spec": {"free": {"deep": None, "other": True}, "tags": []}}),
            merge("one", {"spec": {"free": {"other": 1}}}),
            apply("three", spec={"free": {}, "steps": ["s"]}),
            apply("two", spec={"parts": [{"name": "p"}, {"name": "p", "slot": 1}]}),
            apply("two", spec={"tags": [None]}),
            apply("two", spec={"tags": ["x", "x"]}),
            merge("one", {"status": {"phase": "ignored"}}),
            update("status-writer", "status", spec={"size": 7}, status={"phase": "up", "count": 1}),
            apply("other-writer", subresource="status", status={"phase": "down"}),
        ],
    ),
}
