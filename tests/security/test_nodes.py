"""A node reads the objects that its pods refer to, and no other ones."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.names import LABEL_DISK_NODE
from tests.security.conftest import RBAC, World, about, user

NODE = user("system:node:n1", "system:nodes")
OTHER = user("system:node:n2", "system:nodes")
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")

SPEC: dict[str, Any] = {
    "nodeName": "n1",
    "serviceAccountName": "app",
    "imagePullSecrets": [{"name": "pull"}],
    "containers": [
        {
            "envFrom": [{"secretRef": {"name": "env-from"}}, {"configMapRef": {"name": "env-from-map"}}],
            "env": [
                {"valueFrom": {"secretKeyRef": {"name": "env"}}},
                {"valueFrom": {"configMapKeyRef": {"name": "env-map"}}},
            ],
        }
    ],
    "initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "init"}}}]}],
    "volumes": [
        {"name": "a", "secret": {"secretName": "volume"}},
        {"name": "b", "configMap": {"name": "volume-map"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
        {"name": "d", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "e", "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "pm"}}]}},
        {"name": "f", "csi": {"nodePublishSecretRef": {"name": "csi"}}},
    ],
}


async def pod(world: World, name: str = "web", **changed: Any) -> None:
    metadata = {"name": name, "namespace": "team", "uid": name}
    await world.put("core/pods", {"metadata": metadata, "spec": {**SPEC, **changed}})


@pytest.mark.parametrize(
    ("resource", "names"),
    [
        ("secrets", ["pull", "env-from", "env", "init", "volume", "projected", "csi"]),
        ("configmaps", ["env-from-map", "env-map", "volume-map", "pm"]),
        ("persistentvolumeclaims", ["claim", "web-d"]),
        ("serviceaccounts", ["app"]),
    ],
)
async def test_objects_a_pod_refers_to_are_readable_by_its_node_only(
    world: World, resource: str, names: list[str]
) -> None:
    await pod(world)
    for name in names:
        assert world.may(NODE, "get", resource, namespace="team", name=name), name
        assert not world.may(OTHER, "get", resource, namespace="team", name=name)
        assert not world.may(NODE, "get", resource, namespace="other", name=name)
    assert not world.may(NODE, "get", resource, namespace="team", name="unrelated")
    assert not world.may(NODE, "list", resource, namespace="team")
    assert not world.may(NODE, "update", resource, namespace="team", name=names[0])


async def test_the_right_ends_with_the_last_pod(world: World) -> None:
    await pod(world, "one")
    await pod(world, "two")
    await world.delete("core/pods", "team/one")
    assert world.may(NODE, "get", "secrets", namespace="team", name="env")
    await world.delete("core/pods", "team/two")
    assert not world.may(NODE, "get", "secrets", namespace="team", name="env")


async def test_the_right_begins_when_the_pod_is_bound(world: World) -> None:
    await pod(world, nodeName="")
    assert not world.may(NODE, "get", "secrets", namespace="team", name="env")
    await pod(world)
    assert world.may(NODE, "get", "secrets", namespace="team", name="env")


async def test_ephemeral_containers_bring_new_references(world: World) -> None:
    await pod(world)
    debug = {"env": [{"valueFrom": {"secretKeyRef": {"name": "late"}}}]}
    await pod(world, ephemeralContainers=[debug])
    assert world.may(NODE, "get", "secrets", namespace="team", name="late")


async def test_a_pod_recreated_elsewhere_takes_its_rights_along(world: World) -> None:
    await pod(world)
    await world.delete("core/pods", "team/web")
    await pod(world, nodeName="n2")
    assert not world.may(NODE, "get", "secrets", namespace="team", name="env")
    assert world.may(OTHER, "get", "secrets", namespace="team", name="env")


async def test_a_mirror_pod_gives_its_node_nothing(world: World) -> None:
    metadata = {"name": "m", "namespace": "team", "annotations": {"kubernetes.io/config.mirror": "x"}}
    await world.put("core/pods", {"metadata": metadata, "spec": SPEC})
    assert not world.may(NODE, "get", "secrets", namespace="team", name="env")
    assert world.may(NODE, "get", "pods", namespace="team", name="m")


async def test_volumes_and_their_secrets_are_reached_through_claims(world: World) -> None:
    await pod(world)
    claim = {"namespace": "team", "name": "claim"}
    source = {"nodeStageSecretRef": {"namespace": "vault", "name": "stage"}}
    await world.put("core/persistentvolumes", {"metadata": {"name": "pv"}, "spec": {"claimRef": claim, "csi": source}})
    assert world.may(NODE, "get", "persistentvolumes", name="pv")
    assert world.may(NODE, "get", "secrets", namespace="vault", name="stage")
    assert not world.may(OTHER, "get", "persistentvolumes", name="pv")
    assert not world.may(OTHER, "get", "secrets", namespace="vault", name="stage")
    await world.delete("core/persistentvolumes", "pv")
    assert not world.may(NODE, "get", "persistentvolumes", name="pv")


async def test_a_node_watches_and_lets_go_of_the_volumes_it_has_the_disks_of(world: World) -> None:
    for name, node in (("here", "n1"), ("there", "n2")):
        metadata = {"name": name, "labels": {LABEL_DISK_NODE: node}}
        await world.put("core/persistentvolumes", {"metadata": metadata, "spec": {}})
    assert world.may(NODE, "patch", "persistentvolumes", name="here")
    assert not world.may(NODE, "patch", "persistentvolumes", name="there")
    assert not world.may(NODE, "patch", "persistentvolumes/status", name="here")
    assert not world.may(NODE, "delete", "persistentvolumes", name="here")
    for verb in ("list", "watch"):
        assert world.may(NODE, verb, "persistentvolumes", query=f"labelSelector={LABEL_DISK_NODE}%3Dn1&watch=1")
        assert not world.may(NODE, verb, "persistentvolumes", query=f"labelSelector={LABEL_DISK_NODE}%3Dn2")
        assert not world.may(NODE, verb, "persistentvolumes")


async def test_for_its_networks_a_node_reads_where_pods_are_and_nothing_of_other_nodes(world: World) -> None:
    await pod(world)
    for verb in ("get", "list", "watch"):
        assert not world.may(OTHER, verb, "pods"), "complete pods of another node"
        assert not world.may(OTHER, verb, "pods", namespace="team")
        assert not world.may(OTHER, verb, "pods", namespace="team", name="web")
    endpoints = {"group": "networking.datumapis.com", "resource": "podendpoints"}
    assert {verb for verb in VERBS if world.may(OTHER, verb, **endpoints)} == {"list", "watch"}
    for resource in ("namespaces", "services"):
        assert world.may(OTHER, "list", resource)
        assert not world.may(OTHER, "deletecollection", resource)
    for resource in ("networks", "networkpolicies"):
        assert world.may(OTHER, "list", resource, group="networking.datumapis.com")
    for resource in ("subnets", "networkcontexts", "networkbindings"):
        assert not world.may(OTHER, "list", resource, group="networking.datumapis.com")
    assert not world.may(OTHER, "list", "instances", group="compute.datumapis.com")
    assert not world.may(OTHER, "list", "nodes")
    assert not world.may(OTHER, "list", "secrets")
    await world.delete(f"{RBAC}/clusterrolebindings", "tarmac:node-network")
    assert not world.may(OTHER, "list", **endpoints)


async def test_a_node_lists_its_own_pods_only(world: World) -> None:
    await pod(world)
    own = "fieldSelector=spec.nodeName%3Dn1&watch=1"
    assert world.may(NODE, "list", "pods", query=own)
    assert world.may(NODE, "watch", "pods", query=own)
    assert not world.may(OTHER, "list", "pods", query=own)
    assert not world.may(NODE, "list", "pods")
    assert not world.may(NODE, "list", "pods", query="fieldSelector=spec.nodeName!%3Dn1")
    assert world.may(NODE, "get", "pods", namespace="team", name="web")
    assert not world.may(OTHER, "get", "pods", namespace="team", name="web")


async def test_a_node_sees_itself_and_no_other(world: World) -> None:
    assert world.may(NODE, "get", "nodes", name="n1")
    assert not world.may(NODE, "get", "nodes", name="n2")
    assert not world.may(NODE, "list", "nodes")
    why = world.authorizer.refuses(NODE, about("get", "nodes", name="n2"))
    assert why == "node 'n1' cannot read 'n2', only its own Node object"


async def test_a_node_renews_its_own_lease(world: World) -> None:
    lease = {"group": "coordination.k8s.io", "namespace": "kube-node-lease"}
    assert world.may(NODE, "create", "leases", **lease)
    assert world.may(NODE, "update", "leases", name="n1", **lease)
    assert not world.may(NODE, "update", "leases", name="n2", **lease)
    assert not world.may(NODE, "update", "leases", name="n1", group="coordination.k8s.io", namespace="default")


async def test_a_node_asks_for_tokens_of_its_pods_accounts(world: World) -> None:
    await pod(world)
    assert world.may(NODE, "create", "serviceaccounts/token", namespace="team", name="app")
    assert not world.may(NODE, "create", "serviceaccounts/token", namespace="team", name="other")
    assert not world.may(OTHER, "create", "serviceaccounts/token", namespace="team", name="app")


async def test_nodes_reach_what_the_datapath_needs(world: World) -> None:
    assert world.may(NODE, "list", "endpointslices", group="discovery.k8s.io")
    assert world.may(NODE, "watch", "networks", group="networking.datumapis.com")
    assert not world.may(NODE, "update", "networks", group="networking.datumapis.com")


async def test_a_member_of_the_group_without_a_node_name_is_no_node(world: World) -> None:
    odd = user("joe", "system:nodes")
    assert not world.may(odd, "create", "nodes")
    assert world.authorizer.refuses(odd, about("create", "nodes")) == 'unknown node for user "joe"'


async def test_controllers_writing_pod_status_do_not_change_the_graph(world: World) -> None:
    await pod(world)
    for phase in ("Pending", "Running"):
        metadata = {"name": "web", "namespace": "team", "uid": "web"}
        await world.put("core/pods", {"metadata": metadata, "spec": SPEC, "status": {"phase": phase}})
    assert world.may(NODE, "get", "secrets", namespace="team", name="env")
    await world.delete("core/pods", "team/web")
    assert not world.may(NODE, "get", "secrets", namespace="team", name="env")
