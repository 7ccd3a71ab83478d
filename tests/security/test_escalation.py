"""No user can grant rights beyond their own."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.resource import Resource
from tarmac.api.schema import Schema, Type
from tarmac.api.status import Forbidden, NotFound
from tarmac.server.admission.chain import AdmissionChain, Attributes
from tarmac.server.admission.privileges.rbacescalation import RbacEscalation
from tarmac.server.security.users import User
from tests.security.conftest import RBAC, World, user

READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
READ_SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}


def write(
    world: World,
    writer: User,
    plural: str,
    obj: dict[str, Any],
    old: dict[str, Any] | None = None,
    namespace: str = "team",
) -> None:
    kind = {"roles": "Role", "clusterroles": "ClusterRole", "rolebindings": "RoleBinding"}.get(plural, "X")
    resource = Resource(RBAC, "v1", kind, plural, kind.lower(), bool(namespace), lambda: Schema(Type.OBJECT))
    operation = "CREATE" if old is None else "UPDATE"
    name = obj["metadata"]["name"]
    attributes = Attributes(operation, resource, "", namespace, name, obj, old, writer)
    AdmissionChain([RbacEscalation(world.authorizer)]).validate(attributes)


def role(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "r"}, "rules": list(rules), **more}


def binding(name: str, kind: str = "ClusterRole") -> dict[str, Any]:
    return {"metadata": {"name": "b"}, "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name}}


@pytest.fixture
async def viewer(world: World) -> User:
    await world.bind("view", {"kind": "User", "name": "jane"}, namespace="team")
    return user("jane")


async def test_a_role_of_what_one_has_can_be_written(world: World, viewer: User) -> None:
    write(world, viewer, "roles", role(READ_PODS))


async def test_a_role_of_more_cannot(world: World, viewer: User) -> None:
    with pytest.raises(Forbidden) as refused:
        write(world, viewer, "roles", role(READ_PODS, READ_SECRETS))
    assert refused.value.message == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "jane" (groups=["system:authenticated"]) is attempting '
        "to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )


async def test_rights_in_a_namespace_do_not_make_cluster_roles(world: World, viewer: User) -> None:
    with pytest.raises(Forbidden):
        write(world, viewer, "clusterroles", role(READ_PODS), namespace="")


async def test_the_verb_escalate_lifts_the_rule(world: World, viewer: User) -> None:
    rule = {"apiGroups": [RBAC], "resources": ["roles"], "verbs": ["escalate"]}
    await world.put(f"{RBAC}/clusterroles", role(rule))
    await world.bind("r", {"kind": "User", "name": "jane"}, namespace="team")
    write(world, viewer, "roles", role(READ_SECRETS))


async def test_binding_takes_the_permissions_or_the_verb_bind(world: World, viewer: User) -> None:
    write(world, viewer, "rolebindings", binding("view"))
    with pytest.raises(Forbidden):
        write(world, viewer, "rolebindings", binding("edit"))
    rule = {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["edit"]}
    await world.put(f"{RBAC}/clusterroles", role(rule))
    await world.bind("r", {"kind": "User", "name": "jane"}, namespace="team")
    write(world, viewer, "rolebindings", binding("edit"))
    with pytest.raises(Forbidden):
        write(world, viewer, "rolebindings", binding("admin"))


async def test_binding_a_role_that_is_not_there(world: World, viewer: User) -> None:
    with pytest.raises(NotFound):
        write(world, viewer, "rolebindings", binding("nowhere"))


async def test_aggregation_takes_everything(world: World) -> None:
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    await world.put(f"{RBAC}/clusterroles", {"metadata": {"name": "almost"}, "rules": [rule]})
    await world.bind("almost", {"kind": "User", "name": "joe"})
    gathering = role(aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    with pytest.raises(Forbidden, match="must have cluster-admin privileges to use the aggregationRule"):
        write(world, user("jane"), "clusterroles", gathering, namespace="")
    await world.bind("cluster-admin", {"kind": "User", "name": "ann"})
    write(world, user("ann"), "clusterroles", gathering, namespace="")


async def test_masters_write_anything(world: World) -> None:
    write(world, user("root", "system:masters"), "clusterroles", role(READ_SECRETS), namespace="")


async def test_garbage_collection_may_touch_what_it_could_not_grant(world: World, viewer: User) -> None:
    old = role(READ_SECRETS)
    new = {**old, "metadata": {**old["metadata"], "finalizers": ["x"]}}
    write(world, viewer, "roles", new, old)
    with pytest.raises(Forbidden):
        write(world, viewer, "roles", {**new, "metadata": {"name": "r", "labels": {"a": "b"}}}, old)


async def test_a_namespace_has_no_more_rules_and_bindings_than_can_be_looked_through(world: World) -> None:
    admin = user("root", "system:masters")
    most = {"metadata": {"name": "most", "namespace": "team"}, "rules": [READ_PODS] * 4999}
    await world.put(f"{RBAC}/roles", most)
    write(world, admin, "rolebindings", binding("view"))
    with pytest.raises(Forbidden, match="may have 5000 RoleBindings and rules of Roles, and team would have more"):
        write(world, admin, "roles", role(READ_PODS, READ_PODS))
    write(world, admin, "roles", {**most, "rules": [READ_PODS]}, old=most)  # fewer are always possible
    write(world, admin, "roles", role(READ_PODS, READ_PODS), namespace="other")
    await world.delete(f"{RBAC}/roles", "team/most")
    write(world, admin, "roles", role(READ_PODS, READ_PODS))
