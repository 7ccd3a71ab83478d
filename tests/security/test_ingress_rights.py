"""Rights to the objects of connections from outside, and to the passwords of peers."""

from __future__ import annotations

from typing import Any

from tarmac.api.ingress.names import GROUP
from tests.security.conftest import RBAC, World, user

JANE = {"kind": "User", "apiGroup": RBAC, "name": "jane"}
NODE = user("system:node:dfw-0", "system:nodes")
KINDS = ("addresspools", "bgppeers", "publicaddresses")
SECRET = {"namespace": "kube-system", "name": "tor"}


async def test_editors_of_a_namespace_use_pools_and_write_none(world: World) -> None:
    await world.bind("edit", JANE, namespace="team")
    jane = user("jane")
    assert world.may(jane, "use", "addresspools", group=GROUP, namespace="team", name="public")
    assert not any(world.may(jane, verb, kind, group=GROUP) for verb in ("get", "create", "patch") for kind in KINDS)


async def test_cluster_viewers_read_pools_and_addresses_but_no_peers(world: World) -> None:
    await world.bind("view", JANE)
    jane = user("jane")
    assert [world.may(jane, "list", kind, group=GROUP) for kind in KINDS] == [True, False, True]


async def test_address_managers_write_all_three_and_read_no_secrets(world: World) -> None:
    await world.bind("tarmac:address-manager", JANE)
    jane = user("jane")
    assert all(world.may(jane, verb, kind, group=GROUP) for verb in ("get", "create", "delete") for kind in KINDS)
    assert not world.may(jane, "get", "secrets", namespace="kube-system")


async def test_nodes_watch_the_kinds_and_patch_their_status(world: World) -> None:
    for kind in KINDS:
        assert world.may(NODE, "watch", kind, group=GROUP)
        assert not any(world.may(NODE, verb, kind, group=GROUP, name="x") for verb in ("create", "patch", "delete"))
    assert [world.may(NODE, "patch", f"{kind}/status", group=GROUP, name="x") for kind in KINDS] == [False, True, True]


async def peer(world: World, **spec: Any) -> None:
    full = {"address": "192.0.2.1", "asn": 1, "localASN": 2, "passwordSecret": "tor", **spec}
    await world.put(f"{GROUP}/bgppeers", {"metadata": {"name": "tor"}, "spec": full})


async def node(world: World, **labels: str) -> None:
    labels = {"topology.datum.net/location": "dfw", **labels}
    await world.put("core/nodes", {"metadata": {"name": "dfw-0", "labels": labels}})


async def test_a_node_reads_the_passwords_of_its_own_peers_only(world: World) -> None:
    await node(world, **{"submariner.io/gateway": "true"})
    assert not world.may(NODE, "get", "secrets", **SECRET)
    await peer(world)
    assert world.may(NODE, "get", "secrets", **SECRET)
    assert world.may(NODE, "watch", "secrets", **SECRET)
    assert not world.may(NODE, "patch", "secrets", **SECRET)
    assert not world.may(NODE, "get", "secrets", namespace="kube-system", name="other")
    assert not world.may(NODE, "get", "secrets", namespace="default", name="tor")
    assert not world.may(NODE, "get", "configmaps", **SECRET)
    await peer(world, locations=["sea"])
    assert not world.may(NODE, "get", "secrets", **SECRET)
    await peer(world, locations=["sea", "dfw"], nodeSelector={"matchLabels": {"rack": "1"}})
    assert not world.may(NODE, "get", "secrets", **SECRET)
    await node(world, rack="1")
    assert world.may(NODE, "get", "secrets", **SECRET)
    assert not world.may(user("system:node:dfw-1", "system:nodes"), "get", "secrets", **SECRET)
