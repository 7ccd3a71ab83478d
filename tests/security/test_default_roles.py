"""Default roles: the rights without any configuration, and repair of the defaults after editing."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.base.randomness import Randomness
from tarmac.server.reader import decode
from tarmac.server.security.authorization.defaults import ensure_defaults
from tests.security.conftest import RBAC, World, user

JANE = {"kind": "User", "apiGroup": RBAC, "name": "jane"}
COMPUTE = "compute.datumapis.com"
NETWORKING = "networking.datumapis.com"


async def test_editors_use_networks_and_write_workloads(world: World) -> None:
    await world.bind("edit", JANE, namespace="team")
    jane = user("jane")
    assert world.may(jane, "use", "networks", namespace="team", name="default", group=NETWORKING)
    assert world.may(jane, "create", "workloads", namespace="team", group=COMPUTE)
    assert world.may(jane, "get", "instances", namespace="team", group=COMPUTE)
    assert not world.may(jane, "create", "instances", namespace="team", group=COMPUTE)
    assert not world.may(jane, "create", "roles", namespace="team", group=RBAC)


async def test_admins_of_a_namespace_also_hand_out_roles_in_it(world: World) -> None:
    await world.bind("admin", JANE, namespace="team")
    jane = user("jane")
    assert world.may(jane, "create", "rolebindings", namespace="team", group=RBAC)
    assert world.may(jane, "request-serviceaccounts-token-audience", "vault", namespace="team", name="app")
    assert world.may(jane, "use", "networks", namespace="team", group=NETWORKING)
    assert not world.may(jane, "create", "clusterrolebindings", group=RBAC)


async def test_the_catalogue_of_machine_images_is_read_by_many_and_written_by_cluster_administrators(
    world: World,
) -> None:
    jane, node = user("jane"), user("system:node:dfw-0", "system:nodes")
    await world.bind("admin", JANE)
    assert all(world.may(jane, verb, "machineimages", group=COMPUTE) for verb in ("get", "list", "watch"))
    assert not any(world.may(jane, verb, "machineimages", group=COMPUTE) for verb in ("create", "patch", "delete"))
    assert not world.may(node, "get", "localmachineimages", name="os", group=COMPUTE)
    assert not world.may(node, "get", "machineimages", name="tarmac-tiny", group=COMPUTE), "the Pod contains all of it"
    await world.bind("cluster-admin", JANE)
    assert world.may(jane, "create", "machineimages", group=COMPUTE)


async def test_every_authenticated_user_may_ask_what_they_may_do(world: World) -> None:
    jane = user("jane")
    assert world.may(jane, "create", "selfsubjectaccessreviews", group="authorization.k8s.io")
    assert world.may(jane, "create", "selfsubjectreviews", group="authentication.k8s.io")


async def test_stored_roles_show_what_they_gathered(world: World) -> None:
    entry = world.store.get(f"{RBAC}/clusterroles", "admin")
    assert entry is not None
    admin = decode(entry)
    assert any("workloads" in rule["resources"] for rule in admin["rules"])
    assert admin["aggregationRule"]["clusterRoleSelectors"]
    assert entry.raw.endswith(b'"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1"}')


async def test_starting_again_changes_nothing(world: World) -> None:
    before = world.store.revision
    await ensure_defaults(world.store, world.clock, Randomness(3))
    assert world.store.revision == before


async def test_default_roles_regain_removed_rules_and_keep_added_ones(world: World) -> None:
    extra = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}
    entry = world.store.head(f"{RBAC}/clusterroles", "system:basic-user")
    assert entry is not None
    role = decode(entry)
    role["metadata"].pop("resourceVersion")
    role["rules"] = [extra]
    await world.put(f"{RBAC}/clusterroles", role)
    await world.delete(f"{RBAC}/clusterrolebindings", "system:discovery")
    await ensure_defaults(world.store, world.clock, Randomness(3))
    jane = user("jane")
    assert world.may(jane, "create", "selfsubjectreviews", group="authentication.k8s.io")
    assert world.may(jane, "get", "widgets", group="example.com")
    assert world.store.get(f"{RBAC}/clusterrolebindings", "system:discovery") is not None


async def test_an_object_that_opted_out_is_left_alone(world: World) -> None:
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
    role = {"metadata": {"name": "system:basic-user", "annotations": annotations}, "rules": []}
    await world.put(f"{RBAC}/clusterroles", role)
    await ensure_defaults(world.store, world.clock, Randomness(3))
    assert not world.may(user("jane"), "create", "selfsubjectreviews", group="authentication.k8s.io")


async def test_a_binding_to_the_wrong_role_is_replaced(world: World) -> None:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
    binding = {"metadata": {"name": "cluster-admin"}, "roleRef": reference, "subjects": []}
    await world.put(f"{RBAC}/clusterrolebindings", binding)
    await ensure_defaults(world.store, world.clock, Randomness(3))
    entry = world.store.get(f"{RBAC}/clusterrolebindings", "cluster-admin")
    assert entry is not None
    assert decode(entry)["roleRef"]["name"] == "cluster-admin"


NODE = user("system:node:n1", "system:nodes")
NETWORK_ROLE = "tarmac:node-network"
EARLIER = [  # as the version before PodEndpoints stored it
    {"apiGroups": [""], "resources": ["namespaces", "pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]},
]


async def earlier(world: World, rules: list[Any], **annotations: str) -> None:
    metadata = {"name": NETWORK_ROLE, "annotations": annotations}
    await world.put(f"{RBAC}/clusterroles", {"metadata": metadata, "rules": rules})


async def test_nodes_of_an_earlier_version_lose_the_right_to_read_all_pods(world: World) -> None:
    await earlier(world, EARLIER)
    assert world.may(NODE, "list", "pods"), "unchanged"
    await ensure_defaults(world.store, world.clock, Randomness(3))
    for verb in ("get", "list", "watch"):
        assert not world.may(NODE, verb, "pods")
        assert not world.may(NODE, verb, "pods", namespace="team", name="web")
    assert world.may(NODE, "list", "namespaces")
    assert world.may(NODE, "watch", "podendpoints", group=NETWORKING)
    assert world.may(NODE, "get", "widgets", group="example.com"), "rules that an administrator added stay"
    before = world.store.revision
    await ensure_defaults(world.store, world.clock, Randomness(3))
    assert world.store.revision == before


async def test_a_rule_about_nothing_but_the_lost_right_goes_whole(world: World) -> None:
    await earlier(world, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}])
    await ensure_defaults(world.store, world.clock, Randomness(3))
    entry = world.store.get(f"{RBAC}/clusterroles", NETWORK_ROLE)
    assert entry is not None
    assert all(rule["resources"] for rule in decode(entry)["rules"])
    assert not world.may(NODE, "list", "pods")


async def test_a_role_that_opted_out_keeps_the_right_and_that_is_told(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    await earlier(world, EARLIER, **{"rbac.authorization.kubernetes.io/autoupdate": "false"})
    await ensure_defaults(world.store, world.clock, Randomness(3))
    assert world.may(NODE, "list", "pods")
    assert "default role grants revoked rights and autoupdate is off" in capsys.readouterr().err
