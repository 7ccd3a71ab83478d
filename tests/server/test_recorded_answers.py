"""Kubernetes' own kinds respond as kube-apiserver 1.35.8 did when `vectors/kinds.json` was recorded.

A vector is a list of requests with their responses. `$NS`, `$UID`, `$TIME` and `$RV` stand for values that differ from
run to run; `pick` limits the comparison to some paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.kubernetes.flowcontrol.schemas import WITHOUT_EFFECT
from tests.server.conftest import Client

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors" / "kinds.json").read_bytes())["vectors"]
_ABSENT = "$ABSENT"
# warnings that Tarmac adds to Kubernetes' own, by the path of the request
_OWN_WARNINGS = {"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas": [WITHOUT_EFFECT]}
_FORMS = {
    "$UID": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "$TIME": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    "$RV": re.compile(r"\d+"),
}


def test_every_vector_is_played() -> None:
    assert len(VECTORS) == 24


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"].removeprefix("kinds/"))
async def test_a_kind_answers_as_recorded(vector: dict[str, Any], api: Client) -> None:
    for step in vector["steps"]:
        method, path = _named(step["do"]).split(" ", 1)
        body = json.loads(_named(json.dumps(step["body"]))) if "body" in step else None
        headers = {"content_type": step.get("type", "application/json")}
        if "accept" in step:
            headers["accept"] = step["accept"]
        reply = await api(method, path, body, **headers)
        if step.get("unchecked"):
            assert reply.status < 300, reply.raw
            continue
        answer = json.loads(_named(json.dumps(step["answer"])))
        assert reply.status == answer["code"], reply.raw
        assert _texts(reply.warnings) == [*answer.get("warnings", []), *_OWN_WARNINGS.get(path, [])]
        found = reply.json
        found.get("metadata", {}).pop("managedFields", None)
        if "pick" in step:
            found = {path: _picked(found, path) for path in step["pick"]}
        assert list(_differences(answer["body"], found)) == []


def _named(text: str) -> str:
    return text.replace("$NS", "default").replace("$N", "n")


def _texts(warnings: list[str]) -> list[str]:
    return [json.loads(warning.split(" ", 2)[2]) for warning in warnings]


def _picked(body: Any, path: str) -> Any:
    steps = [step.replace("~", ".") for step in path.split(".")]
    for index, step in enumerate(steps):
        if step == "*":
            return [_picked(each, ".".join(steps[index + 1 :])) for each in body]
        if isinstance(body, list):
            body = body[int(step)]
        elif isinstance(body, dict) and step in body:
            body = body[step]
        else:
            return _ABSENT
    return body


def _differences(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(expected.keys() | found.keys()):
            yield from _differences(expected.get(key, _ABSENT), found.get(key, _ABSENT), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif isinstance(expected, str) and expected in _FORMS and isinstance(found, str):
        if not _FORMS[expected].fullmatch(found):
            yield f"{path}: {found!r} is no {expected}"
    elif expected != found:
        yield f"{path}: {expected!r} expected, {found!r} found"
