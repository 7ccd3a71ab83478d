"""Rights to read and write the objects of external services."""

from __future__ import annotations

import pytest

from tarmac.api.egress.names import GROUP, LABEL_NODE, node_digits
from tarmac.base.randomness import Randomness
from tarmac.server.reader import decode
from tarmac.server.security.authorization.defaults import ensure_defaults
from tests.security.conftest import RBAC, World, user

JANE = {"kind": "User", "apiGroup": RBAC, "name": "jane"}
NODE = user("system:node:dfw-0", "system:nodes")
RELAYS = {"group": GROUP, "namespace": "external-services"}


async def test_people_of_a_namespace_write_services_and_claims_and_see_no_rules(world: World) -> None:
    await world.bind("edit", JANE, namespace="team")
    jane, own = user("jane"), {"group": GROUP, "namespace": "team"}
    for resource in ("externalservices", "sourceipclaims"):
        assert all(world.may(jane, verb, resource, **own) for verb in ("get", "watch", "create", "patch", "delete"))
    assert world.may(jane, "use", "sourceipclasses", name="partner", **own)
    for resource in ("forwarders", "gateways"):
        assert not world.may(jane, "get", resource, **own)
    assert not any(world.may(jane, "get", resource, group=GROUP) for resource in ("sourceips", "sourceipclasses"))


async def test_cluster_viewers_read_classes_and_addresses_but_no_rules(world: World) -> None:
    await world.bind("view", JANE)
    jane = user("jane")
    assert world.may(jane, "list", "sourceips", group=GROUP)
    assert not world.may(jane, "create", "sourceipclasses", group=GROUP)
    assert not world.may(jane, "list", "gateways", **RELAYS)


async def test_managers_of_addresses_need_not_be_administrators(world: World) -> None:
    await world.bind("tarmac:source-ip-manager", JANE)
    jane = user("jane")
    assert world.may(jane, "create", "sourceipclasses", group=GROUP)
    assert world.may(jane, "patch", "sourceips", name="192.0.2.7", group=GROUP)
    assert not world.may(jane, "get", "secrets", namespace="team")


async def test_a_node_follows_its_own_forwarders_and_answers_for_itself(world: World) -> None:
    own = f"labelSelector={LABEL_NODE}%3Ddfw-0"
    for verb in ("list", "watch"):
        assert world.may(NODE, verb, "forwarders", query=own, **RELAYS)
        assert not world.may(NODE, verb, "forwarders", query=own.replace("dfw-0", "dfw-1"), **RELAYS)
        assert not world.may(NODE, verb, "forwarders", query=f"{own}&{own}", **RELAYS)
        assert not world.may(NODE, verb, "forwarders", **RELAYS)
        assert world.may(NODE, verb, "gateways", **RELAYS)
        assert world.may(NODE, verb, "externalservices", group=GROUP)
    assert not world.may(NODE, "get", "forwarders", name="a.b.c", **RELAYS)
    for resource in ("forwarders", "gateways"):
        assert world.may(NODE, "patch", f"{resource}/status", name="x", **RELAYS)
        assert not any(world.may(NODE, verb, resource, name="x", **RELAYS) for verb in ("create", "patch", "delete"))
    for resource in ("sourceips", "sourceipclaims", "sourceipclasses"):
        assert not world.may(NODE, "list", resource, group=GROUP)


async def test_a_node_whose_name_is_too_long_for_a_label_asks_by_its_digits(world: World) -> None:
    name = "n" * 70
    node = user(f"system:node:{name}", "system:nodes")
    assert world.may(node, "list", "forwarders", query=f"labelSelector={LABEL_NODE}%3D{node_digits(name)}", **RELAYS)


@pytest.mark.parametrize("name", ["system:aggregate-to-view", "view", "edit", "admin"])
async def test_viewers_lose_rights_to_read_rules_at_the_next_start(world: World, name: str) -> None:
    entry = world.store.head(f"{RBAC}/clusterroles", name)
    assert entry is not None
    role = decode(entry)
    role["metadata"].pop("resourceVersion")
    role["rules"].append({"apiGroups": [GROUP], "resources": ["forwarders", "gateways", "sourceips"], "verbs": ["get"]})
    await world.put(f"{RBAC}/clusterroles", role)
    await ensure_defaults(world.store, world.clock, Randomness(3))
    entry = world.store.head(f"{RBAC}/clusterroles", name)
    assert entry is not None
    assert b"forwarders" not in entry.raw


async def test_l3_rules_lie_in_a_namespace_of_the_platform_and_no_role_of_a_namespace_reaches_them(
    world: World,
) -> None:
    """A user with `edit` or `admin` in every namespace, including that of the rules, does not reach them, either."""
    await world.bind("admin", JANE, namespace="team")
    await world.bind("edit", {**JANE, "name": "eve"})
    await world.bind("admin", {**JANE, "name": "ada"})
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
    for name in ("jane", "eve", "ada"):
        for resource in ("forwarders", "gateways"):
            for namespace in (RELAYS["namespace"], "team"):
                for what in (resource, f"{resource}/status"):
                    allowed = [
                        verb
                        for verb in verbs
                        if world.may(user(name), verb, what, group=GROUP, namespace=namespace, name="x")
                    ]
                    assert not allowed, f"{name} may {allowed} {what} in {namespace}"
    assert world.may(user("eve"), "create", "externalservices", group=GROUP, namespace="team"), "of their own they may"
