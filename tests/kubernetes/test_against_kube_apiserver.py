"""The same creates and updates on the real kube-apiserver and on ours: same code, reason, causes, warnings and object.

Texts of causes are not compared here: some quote whole Go structures. Pods say `automountServiceAccountToken: false`,
since the real server runs without the account plugin.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarmac.api.kubernetes.flowcontrol.schemas import WITHOUT_EFFECT
from tarmac.api.kubernetes.resources import resources
from tarmac.api.kubernetes.runtimeclasses import SANDBOX_CLASS
from tests.differential.conftest import Pair, pair
from tests.differential.normalising import Normaliser
from tests.differential.servers import Server
from tests.kubernetes.rules import Object
from tests.kubernetes.test_refusals import REFUSALS

__all__ = ["pair"]
pytestmark = pytest.mark.peers

_HERE = Path(__file__).parent
CREATES: list[Object] = [*yaml.safe_load((_HERE / "creates.yaml").read_text()), *REFUSALS]
UPDATES: list[Object] = yaml.safe_load((_HERE / "updates.yaml").read_text())
_SERVED = {resource.kind: resource for resource in reversed(resources())}
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_PRIVILEGED = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}


def _collection(kind: str) -> str:
    resource = _SERVED[kind]
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return f"{root}/namespaces/default/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"


def _complete(kind: str, obj: Object) -> Object:
    obj = {"kind": kind, "apiVersion": _SERVED[kind].api_version, **copy.deepcopy(obj)}
    if kind == "Pod":
        obj["spec"].setdefault("automountServiceAccountToken", False)
        if "kubernetes.io/config.mirror" not in obj["metadata"].get("annotations", {}):
            obj["spec"].setdefault("serviceAccountName", "default")
    return obj


def _ask(server: Server, method: str, path: str, body: Object, content_type: str = "application/json") -> Object:
    answer = server.send(method, path, {"Content-Type": content_type}, json.dumps(body).encode(), True)
    warnings = sorted(each for each in answer.warnings if WITHOUT_EFFECT not in each)  # of ours alone
    return {"status": answer.status, "warnings": warnings, "body": json.loads(answer.body)}


def _comparable(answer: Object) -> Object:
    body: Any = answer["body"]
    if answer["status"] >= 400:
        causes = (body.get("details") or {}).get("causes") or ()
        seen: Any = [body.get("reason"), sorted((cause["reason"], cause["field"]) for cause in causes)]
    else:
        body["metadata"].pop("managedFields", None)
        body.get("spec", {}).pop("healthCheckNodePort", None)  # chosen at random
        if body["kind"] == "ResourceQuota":
            del body["status"]  # the real one's is written by a controller that does not run here
        if body.get("spec", {}).get("runtimeClassName") == SANDBOX_CLASS:
            del body["spec"]["runtimeClassName"]  # our default; the real one has none
        seen = Normaliser()(body)
    return {**answer, "body": seen}


def _both(servers: Pair, method: str, path: str, body: Object, content_type: str = "application/json") -> None:
    real, ours = (_ask(server, method, path, body, content_type) for server in (servers.real, servers.ours))
    shown = ours["body"].get("message")
    assert _comparable(ours) == _comparable(real), shown


@pytest.fixture(scope="module")
def servers(pair: Pair) -> Pair:
    """Both servers, with a namespace `default` that accepts any pod."""
    for server in (pair.real, pair.ours):
        _ask(server, "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        assert _ask(server, "PATCH", "/api/v1/namespaces/default", _PRIVILEGED, _MERGE)["status"] == 200
    return pair


@pytest.mark.parametrize("case", CREATES, ids=[f"{case['kind']}-{case['case']}" for case in CREATES])
def test_creates(servers: Pair, case: Object) -> None:
    _both(servers, "POST", f"{_collection(case['kind'])}?dryRun=All", _complete(case["kind"], case["object"]))


@pytest.mark.parametrize("case", UPDATES, ids=[f"{case['kind']}-{case.get('door', 'update')}" for case in UPDATES])
def test_updates(servers: Pair, case: Object) -> None:
    path = _collection(case["kind"])
    _both(servers, "POST", path, _complete(case["kind"], case["object"]))
    door = f"{path}/{case['object']['metadata']['name']}/{case.get('door', '')}".rstrip("/")
    for patch in case["patches"]:
        _both(servers, "PATCH", door, patch, _STRATEGIC if case["kind"] == "Pod" else _MERGE)
