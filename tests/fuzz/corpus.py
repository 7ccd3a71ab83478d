"""Requests to a server: objects of every kind in JSON and protobuf, patches of all types, deletions, odd queries.

The number alone determines a case. Objects come from examples, from a real kube-apiserver, and from the schemas, so
that many of them are accepted; names are few, so that updates and patches find existing objects.
"""

from __future__ import annotations

import base64
import json
import random
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import yaml

from tarmac.api.catalog import build_catalog
from tarmac.api.resource import Resource
from tests.decode.samples import SAMPLES
from tests.decode.wire import encode_body
from tests.fuzz.extremes import base_of
from tests.fuzz.mutations import damaged, misvalued
from tests.fuzz.objects import Generator

NAMESPACE = "fuzz"
_EXAMPLES = Path(__file__).parents[2] / "examples"
_NAMES = 4
_OF_EACH = 8  # bases for each kind, from its schema
_SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields")
_JSON, _PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_PATHS = [
    "/metadata/labels/a",
    "/spec",
    "",
    "/spec/containers/0",
    "/x/0/-",
    "/metadata/annotations/a~1b",
    "/data/k",
    "/~2",
]
_QUERIES = ["limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector", "pretty"]


_CONSTRAINED = [{"name": "a", "selector": {"constraint": "region == 'x'"}, "scaleSettings": {"minReplicas": 1}}]


class Case(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes
    content_type: str


class _Base(NamedTuple):
    resource: Resource
    text: bytes  # JSON
    wire: bytes  # protobuf; empty where there is none


def collection(resource: Resource) -> str:
    """Return the collection of a kind."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return f"{root}/namespaces/{NAMESPACE}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"


@cache
def stored() -> list[Resource]:
    """Return kinds that can be created."""
    return [each for each in build_catalog() if each.stored and "create" in each.verbs]


@cache
def _bases(seed: int) -> list[_Base]:
    by_kind = {(each.api_version, each.kind): each for each in stored()}
    found: list[_Base] = []
    documents: list[dict[str, Any]] = [
        each for file in sorted(_EXAMPLES.rglob("*.yaml")) for each in yaml.safe_load_all(file.read_text())
    ]
    for obj in documents:
        if resource := by_kind.get((str(obj.get("apiVersion")), str(obj.get("kind")))):
            found += [_base(resource, obj, number) for number in range(_NAMES)]
    for plural, (group, wire, obj) in SAMPLES.items():
        resource = next(each for each in stored() if (each.group, each.plural) == (group, plural))
        found += [_base(resource, obj, number) for number in range(_NAMES)]
        found += [_base(resource, obj, 0)._replace(wire=base64.b64decode(wire))] * _NAMES
    for resource in stored():
        found += [_base(resource, base_of(resource), number) for number in range(_NAMES)]
        for number in range(_OF_EACH):
            generator = Generator(seed * 1000 + number, wrongness=0.0 if number % 2 else 0.06)
            found.append(_base(resource, generator.object_of(resource, ""), number))
    return found


def _base(resource: Resource, obj: dict[str, Any], number: int) -> _Base:
    place = {"namespace": NAMESPACE} if resource.namespaced else {}
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVERS_OWN}
    obj = {**obj, "metadata": {**metadata, "name": f"fuzz-{number % _NAMES}", **place}}
    try:
        wire = encode_body(obj, resource.group, resource.version)
    except Exception:  # half-right objects have no form in protobuf
        wire = b""
    return _Base(resource, json.dumps(obj).encode(), wire)


@cache
def _reviews() -> list[tuple[str, bytes]]:
    def body(kind: str, group: str, **spec: Any) -> bytes:
        return json.dumps({"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}).encode()

    access = {
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default", "name": "a"},
        "user": "u",
    }
    more = {"groups": ["g"], "extra": {"a": ["b"]}, "uid": "1"}
    group = "authorization.k8s.io"
    return [
        (f"/apis/{group}/v1/subjectaccessreviews", body("SubjectAccessReview", group, **access, **more)),
        (f"/apis/{group}/v1/selfsubjectaccessreviews", body("SelfSubjectAccessReview", group, **access)),
        (f"/apis/{group}/v1/selfsubjectrulesreviews", body("SelfSubjectRulesReview", group, namespace="default")),
        ("/apis/authentication.k8s.io/v1/tokenreviews", body("TokenReview", "authentication.k8s.io", token="a.b.c")),
    ]


def unharmed(seed: int) -> list[Case]:
    """Every undamaged object, in every encoding: afterwards the server has loaded all lazy parts."""
    placed = [(collection(base.resource), base) for base in _bases(seed)]
    sent = [Case("POST", path, base.text, _JSON) for path, base in placed]
    sent += [Case("POST", path, base.wire, _PROTOBUF) for path, base in placed if base.wire]
    sent += [Case("POST", path, base.text, "application/yaml") for path, base in placed[:3]]
    for path, base in placed:
        if base.resource.kind == "Workload":
            obj = json.loads(base.text)
            obj["spec"] = {**(obj.get("spec") or {}), "placements": _CONSTRAINED}
            sent.append(Case("POST", path, json.dumps(obj).encode(), _JSON))
    return sent


def request(seed: int, number: int) -> Case:
    """Return the case of a number."""
    dice = random.Random(f"{seed}/{number}")
    base = dice.choice(_bases(seed))
    place = f"{collection(base.resource)}/fuzz-{dice.randrange(_NAMES)}"
    pick = dice.random()
    if pick < 0.3:
        return Case("POST", collection(base.resource), _text(base.text, dice), _JSON)
    if pick < 0.42:
        return Case("PUT", place, _text(base.text, dice), _JSON)
    if pick < 0.7:
        return _patch(base, place, dice)
    if pick < 0.84 and base.wire:
        method, path = ("POST", collection(base.resource)) if pick < 0.79 else ("PUT", place)
        return Case(method, path, damaged(base.wire, dice), _PROTOBUF)
    if pick < 0.94:
        return Case("DELETE", f"{place}?gracePeriodSeconds=0", b"", _JSON)
    if pick < 0.97:
        value = quote(str(Generator(number).anything(9)))
        return Case("GET", f"{collection(base.resource)}?{dice.choice(_QUERIES)}={value}&limit=5", b"", _JSON)
    path, text = dice.choice(_reviews())
    return Case("POST", path, _text(text, dice), _JSON)


def _text(text: bytes, dice: random.Random) -> bytes:
    pick = dice.random()
    return text if pick < 0.25 else misvalued(text, dice) if pick < 0.8 else damaged(text, dice)


def _patch(base: _Base, place: str, dice: random.Random) -> Case:
    kind = dice.choice(_PATCHES)
    if kind != _PATCHES[0]:
        query = "?fieldManager=fuzz&force=true" if kind == _PATCHES[3] else "?fieldValidation=Strict"
        return Case("PATCH", place + query, _text(base.text, dice), kind)
    steps = [
        {
            "op": dice.choice(["add", "remove", "replace", "test", "move", "copy"]),
            "path": dice.choice([*_PATHS, f"/spec/containers/{'9' * 5000}"]),
            "from": dice.choice(_PATHS),
            "value": Generator(dice.randrange(1 << 30)).anything(0),
        }
        for _ in range(dice.randint(1, 4))
    ]
    return Case("PATCH", place, _text(json.dumps(steps).encode(), dice), kind)
