"""Roles and bindings decide, and changes to them take effect at once."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization import rbac
from tarmac.server.security.authorization.authorize import refusal
from tarmac.server.security.users import ANONYMOUS
from tests.security.conftest import RBAC, World, about, user

JANE = {"kind": "User", "apiGroup": RBAC, "name": "jane"}
DEVELOPERS = {"kind": "Group", "apiGroup": RBAC, "name": "developers"}


async def role(world: World, name: str, *rules: dict[str, Any], namespace: str = "") -> None:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    bucket = f"{RBAC}/roles" if namespace else f"{RBAC}/clusterroles"
    await world.put(bucket, {"metadata": metadata, "rules": list(rules)})


async def test_nobody_may_do_anything_by_default(world: World) -> None:
    assert not world.may(user("jane"), "get", "pods", namespace="default")


async def test_masters_may_do_everything(world: World) -> None:
    root = user("root", "system:masters")
    assert world.may(root, "delete", "anything", group="any.group")
    assert world.authorizer.refuses(root, RequestInfo("post", "/any/path")) is None


async def test_a_cluster_role_binding_counts_everywhere(world: World) -> None:
    await world.bind("view", JANE)
    assert world.may(user("jane"), "list", "pods", namespace="default")
    assert world.may(user("jane"), "list", "pods")
    assert not world.may(user("jane"), "create", "pods", namespace="default")
    assert not world.may(user("jane"), "get", "secrets", namespace="default")
    assert not world.may(user("joe"), "list", "pods")


async def test_a_role_binding_counts_in_its_namespace(world: World) -> None:
    await world.bind("edit", DEVELOPERS, namespace="team")
    developer = user("jane", "developers")
    assert world.may(developer, "create", "pods", namespace="team")
    assert not world.may(developer, "create", "pods", namespace="other")
    assert not world.may(developer, "list", "pods")


async def test_a_service_account_is_a_subject(world: World) -> None:
    await world.bind("view", {"kind": "ServiceAccount", "name": "app"}, namespace="team")
    assert world.may(user("system:serviceaccount:team:app"), "get", "pods", namespace="team")
    assert not world.may(user("system:serviceaccount:other:app"), "get", "pods", namespace="team")


async def test_removing_a_binding_takes_the_permission_away_at_once(world: World) -> None:
    await world.bind("view", JANE)
    assert world.may(user("jane"), "get", "pods")
    await world.delete(f"{RBAC}/clusterrolebindings", "view")
    assert not world.may(user("jane"), "get", "pods")


async def test_changing_a_role_counts_at_once_for_a_known_user(world: World) -> None:
    jane = user("jane")
    await role(world, "reader", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})
    await world.bind("reader", JANE)
    assert world.may(jane, "get", "pods", namespace="a")
    assert not world.may(jane, "get", "nodes")
    await role(world, "reader", {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]})
    assert not world.may(jane, "get", "pods", namespace="a")
    assert world.may(jane, "get", "nodes")


async def test_resource_names_limit_a_rule(world: World) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"], "resourceNames": ["a", "b"]}
    await role(world, "some", rule, namespace="team")
    await world.bind("some", JANE, namespace="team", kind="Role")
    jane = user("jane")
    assert world.may(jane, "get", "configmaps", namespace="team", name="a")
    assert world.may(jane, "get", "configmaps", namespace="team", name="b")
    assert not world.may(jane, "get", "configmaps", namespace="team", name="c")
    assert not world.may(jane, "list", "configmaps", namespace="team")


@pytest.mark.parametrize(
    ("resources", "asked", "allowed"),
    [
        (["pods"], "pods", True),
        (["pods"], "pods/log", False),
        (["pods/log"], "pods/log", True),
        (["*/scale"], "workloads/scale", True),
        (["*/scale"], "workloads", False),
        (["*"], "pods/exec", True),
    ],
)
async def test_subresources_are_named_apart(world: World, resources: list[str], asked: str, allowed: bool) -> None:
    await role(world, "r", {"apiGroups": ["*"], "resources": resources, "verbs": ["*"]})
    await world.bind("r", JANE)
    assert world.may(user("jane"), "get", asked, namespace="x") is allowed


@pytest.mark.parametrize(
    ("urls", "path", "allowed"),
    [
        (["/metrics"], "/metrics", True),
        (["/metrics"], "/metrics/x", False),
        (["/debug/*"], "/debug/pprof", True),
        (["*"], "/anything", True),
    ],
)
async def test_paths_outside_the_api(world: World, urls: list[str], path: str, allowed: bool) -> None:
    await role(world, "urls", {"nonResourceURLs": urls, "verbs": ["get"]})
    await world.bind("urls", JANE)
    jane = user("jane")
    assert (world.authorizer.refuses(jane, RequestInfo("get", path)) is None) is allowed
    assert world.authorizer.refuses(jane, RequestInfo("post", path)) is not None


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/version"])
async def test_the_anonymous_user_may_ask_for_health_and_version(world: World, path: str) -> None:
    assert world.authorizer.refuses(ANONYMOUS, RequestInfo("get", path)) is None


@pytest.mark.parametrize("path", ["/api", "/apis", "/openapi/v2", "/metrics", "/livez/ping", "/"])
async def test_the_anonymous_user_may_ask_for_nothing_else(world: World, path: str) -> None:
    assert world.authorizer.refuses(ANONYMOUS, RequestInfo("get", path)) is not None
    assert not world.may(ANONYMOUS, "list", "pods")


async def test_aggregated_roles_gather_by_label(world: World) -> None:
    await world.bind("view", JANE)
    jane = user("jane")
    assert not world.may(jane, "get", "widgets", group="example.com")
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    rule = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}
    await world.put(f"{RBAC}/clusterroles", {"metadata": {"name": "widgets", "labels": labels}, "rules": [rule]})
    assert world.may(jane, "get", "widgets", group="example.com")
    await world.bind("admin", DEVELOPERS)
    assert world.may(user("joe", "developers"), "get", "widgets", group="example.com")


async def test_refusals_are_worded_as_kubernetes_words_them() -> None:
    jane = user("jane")
    in_namespace = refusal(jane, about("list", "pods", namespace="default"))
    assert in_namespace.message == (
        'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    assert in_namespace.details == {"kind": "pods"}
    named = refusal(jane, about("get", "workloads/scale", name="web", group="compute.datumapis.com"))
    assert named.message == (
        'workloads.compute.datumapis.com "web" is forbidden: User "jane" cannot get resource "workloads/scale" '
        'in API group "compute.datumapis.com" at the cluster scope'
    )
    path = refusal(jane, RequestInfo("get", "/metrics"))
    assert path.message == 'forbidden: User "jane" cannot get path "/metrics"'


async def test_a_binding_to_a_missing_role_is_named_in_the_refusal(world: World) -> None:
    await world.bind("nowhere", JANE)
    why = world.authorizer.refuses(user("jane"), about("get", "pods"))
    assert why == 'RBAC: clusterrole.rbac.authorization.k8s.io "nowhere" not found'


async def test_decisions_say_which_binding_allowed(world: World) -> None:
    await world.bind("view", DEVELOPERS, namespace="team")
    decision = world.authorizer.decide(user("jane", "developers"), about("get", "pods", namespace="team"))
    assert decision.allowed
    assert decision.reason == ('RBAC: allowed by RoleBinding "view/team" of ClusterRole "view" to Group "developers"')


async def test_a_change_in_one_namespace_forgets_nothing_about_others(world: World) -> None:
    rules = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    for namespace in ("mine", "theirs"):
        await role(world, "reader", rules, namespace=namespace)
        await world.bind("reader", JANE, namespace=namespace, kind="Role")
    looked_at: list[str] = []
    jane = user("jane")  # one connection
    policy = world.authorizer.rbac
    decide = policy._decide  # pyright: ignore[reportPrivateUsage]
    policy._decide = lambda user, kind, namespace: (  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        looked_at.append(namespace) or decide(user, kind, namespace)
    )
    assert world.may(jane, "get", "pods", namespace="theirs")
    assert world.may(jane, "get", "pods", namespace="mine")
    await role(world, "reader", namespace="mine")
    assert not world.may(jane, "get", "pods", namespace="mine")
    assert world.may(jane, "get", "pods", namespace="theirs")
    assert looked_at == ["theirs", "mine", "mine"]


async def test_questions_about_paths_that_nobody_has_are_not_remembered_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rbac, "_MAX_DECISIONS", 100)
    for number in range(1000):
        assert not world.may(user("jane"), "get", f"made-up-{number}", namespace=f"ns-{number % 30}")
    tables = world.authorizer.rbac._decisions  # pyright: ignore[reportPrivateUsage]
    assert sum(len(kinds) for users in tables.values() for kinds in users.values()) <= 100


async def test_many_bindings_of_one_role_are_one_role_to_look_at(world: World) -> None:
    before = len(world.authorizer.rules_for(user("jane"), "team"))
    await role(world, "reader", {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, namespace="team")
    for number in range(50):
        reference = {"apiGroup": RBAC, "kind": "Role", "name": "reader"}
        metadata = {"name": f"b{number}", "namespace": "team"}
        bound = {"metadata": metadata, "roleRef": reference, "subjects": [JANE]}
        await world.put(f"{RBAC}/rolebindings", bound)
    assert len(world.authorizer.rules_for(user("jane"), "team")) == before + 1
