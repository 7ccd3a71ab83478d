"""The reviews that `kubectl auth can-i`, `whoami` and kubelets use."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.status import BadRequest, Invalid
from tarmac.server.security.certificates.revocations import Revocations
from tarmac.server.security.reviews import Reviews
from tarmac.server.security.users import User
from tests.security.conftest import World, user

PODS = {"verb": "list", "resource": "pods", "namespace": "team"}


def answer(world: World, plural: str, asker: User, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    reviews = Reviews(world.authenticator, world.authorizer, world.clock, Revocations(world.store).refuses)
    answered = reviews.answer(plural, asker, namespace, {"kind": "Review", "spec": spec})
    assert isinstance(answered, dict)  # at once
    return answered


async def test_can_i(world: World) -> None:
    await world.bind("view", {"kind": "User", "name": "jane"}, namespace="team")
    spec = {"resourceAttributes": PODS}
    yes = answer(world, "selfsubjectaccessreviews", user("jane"), spec)
    assert yes["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "view/team" of ClusterRole "view" to User "jane"',
    }
    assert yes["spec"] == spec
    assert answer(world, "selfsubjectaccessreviews", user("joe"), spec)["status"] == {"allowed": False}


async def test_can_i_reach_a_path(world: World) -> None:
    spec = {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
    assert answer(world, "selfsubjectaccessreviews", user("jane"), spec)["status"] == {"allowed": False}
    root = user("root", "system:masters")
    assert answer(world, "selfsubjectaccessreviews", root, spec)["status"] == {"allowed": True}


async def test_can_somebody_else(world: World) -> None:
    await world.bind("view", {"kind": "Group", "name": "developers"}, namespace="team")
    spec = {"user": "joe", "groups": ["developers"], "resourceAttributes": PODS}
    assert answer(world, "subjectaccessreviews", user("jane"), spec)["status"]["allowed"]
    local = answer(world, "localsubjectaccessreviews", user("jane"), spec, namespace="team")
    assert local["status"]["allowed"]


async def test_field_selectors_count_for_nodes(world: World) -> None:
    node = user("system:node:n1", "system:nodes")
    attributes = {"verb": "list", "resource": "pods"}
    assert not answer(world, "selfsubjectaccessreviews", node, {"resourceAttributes": attributes})["status"]["allowed"]
    for selector in (
        {"rawSelector": "spec.nodeName=n1"},
        {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]},
    ):
        spec = {"resourceAttributes": {**attributes, "fieldSelector": selector}}
        assert answer(world, "selfsubjectaccessreviews", node, spec)["status"]["allowed"]
    for key, operator, values in (
        ("spec.nodeName", "In", ["n1,metadata.name=x"]),  # a name with a comma in it, and not two conditions
        ("metadata.name=x,spec.nodeName", "In", ["n1"]),
        ("spec.nodeName", "In", ["n1", "n2"]),
        ("spec.nodeName", "NotIn", ["n1"]),
        ("spec.nodeName", "Exists", []),
    ):
        requirement = {"key": key, "operator": operator, "values": values}
        spec = {"resourceAttributes": {**attributes, "fieldSelector": {"requirements": [requirement]}}}
        assert not answer(world, "selfsubjectaccessreviews", node, spec)["status"]["allowed"], requirement


@pytest.mark.parametrize(
    ("plural", "spec", "field"),
    [
        ("selfsubjectaccessreviews", {}, "spec.resourceAttributes"),
        (
            "selfsubjectaccessreviews",
            {"resourceAttributes": {}, "nonResourceAttributes": {}},
            "spec.nonResourceAttributes",
        ),
        ("subjectaccessreviews", {"resourceAttributes": PODS}, "spec.user"),
        (
            "localsubjectaccessreviews",
            {"user": "x", "resourceAttributes": {**PODS, "namespace": "other"}},
            "spec.resourceAttributes.namespace",
        ),
    ],
)
async def test_reviews_that_make_no_sense(world: World, plural: str, spec: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        answer(world, plural, user("jane"), spec, namespace="team")
    assert refused.value.details is not None
    assert [cause["field"] for cause in refused.value.details["causes"]] == [field]


async def test_all_my_rules(world: World) -> None:
    await world.bind("view", {"kind": "User", "name": "jane"}, namespace="team")
    status = answer(world, "selfsubjectrulesreviews", user("jane"), {"namespace": "team"})["status"]
    assert status["incomplete"] is False
    assert any("pods" in rule["resources"] for rule in status["resourceRules"])
    assert any("/version" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])
    with pytest.raises(BadRequest, match="no namespace on request"):
        answer(world, "selfsubjectrulesreviews", user("jane"), {})


async def test_self_subject_review_returns_the_caller(world: World) -> None:
    jane = User("jane", "42", ("developers", "system:authenticated"), {"scopes": ("view",)})
    answered = answer(world, "selfsubjectreviews", jane, {})
    assert answered["status"]["userInfo"] == {
        "username": "jane",
        "uid": "42",
        "groups": ["developers", "system:authenticated"],
        "extra": {"scopes": ["view"]},
    }
    assert answered["metadata"]["creationTimestamp"].endswith("Z")


async def test_token_review_returns_the_holder_and_audiences(world: World) -> None:
    await world.put("core/serviceaccounts", {"metadata": {"name": "app", "namespace": "team", "uid": "u"}})
    request = {"spec": {"audiences": ["vault", "https://kubernetes.default.svc"]}}
    token = world.issuer.issue("team", "app", request)["status"]["token"]
    status = answer(world, "tokenreviews", user("x"), {"token": token})["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == "system:serviceaccount:team:app"
    assert status["audiences"] == ["https://kubernetes.default.svc"]
    status = answer(world, "tokenreviews", user("x"), {"token": token, "audiences": ["vault"]})["status"]
    assert status["audiences"] == ["vault"]
    status = answer(world, "tokenreviews", user("x"), {"token": token, "audiences": ["other"]})["status"]
    assert "authenticated" not in status
    assert status["error"] == (
        'token audiences ["vault" "https://kubernetes.default.svc"] is invalid for the target audiences ["other"]'
    )
    status = answer(world, "tokenreviews", user("x"), {"token": "nonsense"})["status"]
    assert status == {"user": {}, "error": "invalid bearer token"}
    with pytest.raises(BadRequest):
        answer(world, "tokenreviews", user("x"), {})
