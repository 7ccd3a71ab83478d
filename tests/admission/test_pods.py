"""Admission of Pods."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.identities import controller_user
from tarmac.api.status import Forbidden
from tarmac.server.admission.chain import Attributes
from tarmac.server.security.users import User
from tests.admission.world import ADMIN, World, asking, pod


async def test_a_pod_gets_its_account_and_a_token(world: World) -> None:
    spec = (world.admit("pods", pod()).obj or {})["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    (volume,) = spec["volumes"]
    (mount,) = spec["containers"][0]["volumeMounts"]
    assert volume["name"] == mount["name"]
    assert volume["name"].startswith("kube-api-access-")
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.mark.parametrize("where", ["pod", "account"])
async def test_either_can_decline_the_token(world: World, where: str) -> None:
    account: dict[str, Any] = {"metadata": {"name": "quiet", "namespace": "default"}}
    spec: dict[str, Any] = {"serviceAccountName": "quiet"}
    (spec if where == "pod" else account)["automountServiceAccountToken"] = False
    await world.put("serviceaccounts", account)
    assert "volumes" not in (world.admit("pods", pod(**spec)).obj or {})["spec"]


async def test_pull_secrets_come_from_the_account(world: World) -> None:
    account = {"metadata": {"name": "puller", "namespace": "default"}, "imagePullSecrets": [{"name": "registry"}]}
    await world.put("serviceaccounts", account)
    spec = (world.admit("pods", pod(serviceAccountName="puller")).obj or {})["spec"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]


async def test_an_account_must_exist(world: World) -> None:
    with pytest.raises(Forbidden) as caught:
        world.admit("pods", pod(serviceAccountName="gone"))
    assert caught.value.message == (
        'pods "p" is forbidden: error looking up service account default/gone: serviceaccount "gone" not found'
    )


async def test_trouble_with_the_node_is_tolerated_for_five_minutes(world: World) -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    spec = (world.admit("pods", pod(tolerations=[own])).obj or {})["spec"]
    assert [(one["key"], one["tolerationSeconds"]) for one in spec["tolerations"]] == [
        ("node.kubernetes.io/not-ready", 5),
        ("node.kubernetes.io/unreachable", 300),
    ]


async def test_the_priority_comes_from_the_class(world: World) -> None:
    assert (world.admit("pods", pod()).obj or {})["spec"]["priority"] == 0
    high = {"metadata": {"name": "high"}, "value": 1000, "globalDefault": True, "preemptionPolicy": "Never"}
    await world.put("priorityclasses", high)
    spec = (world.admit("pods", pod()).obj or {})["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("high", 1000, "Never")
    critical = (world.admit("pods", pod(priorityClassName="system-node-critical")).obj or {})["spec"]
    assert critical["priority"] == 2_000_001_000
    with pytest.raises(Forbidden, match="no PriorityClass with name gone was found"):
        world.admit("pods", pod(priorityClassName="gone"))
    with pytest.raises(Forbidden, match=r"the integer value of priority \(7\) must not be provided in pod spec"):
        world.admit("pods", pod(priority=7))


async def test_a_class_that_outranks_everybody_takes_the_right_to_use_it(world: World) -> None:
    """With it, a tenant could evict the Pods of all tenants to take their place."""
    for name in ("system-node-critical", "system-cluster-critical"):
        with pytest.raises(Forbidden, match=f'the right "use" on priorityclasses.scheduling.k8s.io "{name}"'):
            world.admit("pods", pod(priorityClassName=name), user=User("jane", groups=("system:authenticated",)))
        world.admit("pods", pod(priorityClassName=name))


async def test_there_is_one_default_class(world: World) -> None:
    await world.put("priorityclasses", {"metadata": {"name": "a"}, "value": 1, "globalDefault": True})
    with pytest.raises(Forbidden, match="PriorityClass a is already marked as default"):
        world.admit("priorityclasses", {"metadata": {"name": "b"}, "value": 2, "globalDefault": True})


async def test_a_runtime_class_brings_its_overhead_and_its_place(world: World) -> None:
    await world.put(
        "runtimeclasses",
        {
            "metadata": {"name": "vm"},
            "handler": "vm",
            "overhead": {"podFixed": {"cpu": "100m"}},
            "scheduling": {"nodeSelector": {"kvm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
        },
    )
    spec = (world.admit("pods", pod(runtimeClassName="vm")).obj or {})["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "100m"}, {"kvm": "yes"})
    assert {"key": "vm", "operator": "Exists"} in spec["tolerations"]
    with pytest.raises(Forbidden, match=r"conflict: runtimeClass.scheduling.nodeSelector"):
        world.admit("pods", pod(runtimeClassName="vm", nodeSelector={"kvm": "no"}))
    with pytest.raises(Forbidden, match='pod rejected: RuntimeClass "gone" not found'):
        world.admit("pods", pod(runtimeClassName="gone"))
    with pytest.raises(Forbidden, match="Pod Overhead set without corresponding RuntimeClass"):
        world.admit("pods", pod(overhead={"cpu": "1"}))


@pytest.mark.parametrize(
    ("memory", "charged"), [("128Mi", "193Mi"), ("1Gi", "200Mi"), ("4Gi", "224Mi"), ("129Mi", "194Mi"), (None, "192Mi")]
)
async def test_overhead_of_a_virtual_machine_grows_with_its_memory(
    world: World, memory: str | None, charged: str
) -> None:
    for handler in ("vm", "other"):
        overhead = {"podFixed": {"memory": "192Mi", "cpu": "1m"}}
        await world.put("runtimeclasses", {"metadata": {"name": handler}, "handler": handler, "overhead": overhead})
    resources = {"resources": {"limits": {"memory": memory}, "requests": {"memory": memory}}} if memory else {}

    def overhead_of(handler: str, **stated: Any) -> Any:
        made = pod(runtimeClassName=handler, **stated)
        made["spec"]["containers"][0] |= resources
        return (world.admit("pods", made).obj or {})["spec"]["overhead"]

    assert overhead_of("vm") == {"memory": charged, "cpu": "1m"}
    assert overhead_of("vm", overhead={"memory": charged, "cpu": "1m"}) == {"memory": charged, "cpu": "1m"}
    assert overhead_of("other") == {"memory": "192Mi", "cpu": "1m"}, "only machines have memory of their own"
    with pytest.raises(Forbidden, match="doesn't match RuntimeClass's defined Overhead"):
        overhead_of("vm", overhead={"memory": "1Mi", "cpu": "1m"})


async def test_limit_ranges_fill_in_and_bound(world: World) -> None:
    item = {"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "200m"}}
    await world.put("limitranges", {"metadata": {"name": "l", "namespace": "default"}, "spec": {"limits": [item]}})
    obj = world.admit("pods", pod()).obj or {}
    assert obj["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "200m"}, "limits": {"cpu": "500m"}}
    assert obj["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    )
    with pytest.raises(Forbidden) as caught:
        world.admit("pods", pod(containers=asking(limits={"cpu": "3"})))
    assert caught.value.message.endswith("maximum cpu usage per Container is 2, but limit is 3")


async def test_new_nodes_are_not_ready(world: World) -> None:
    obj = world.admit("nodes", {"metadata": {"name": "n"}}).obj or {}
    assert obj["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


async def test_only_the_controller_of_deployments_makes_instances(world: World) -> None:
    instance = {"metadata": {"name": "i", "namespace": "default"}, "spec": {}}
    for stranger in (User("root", groups=("system:masters",)), User(controller_user("instance"))):
        with pytest.raises(Forbidden, match="create a Workload instead"):
            world.admit("instances", instance, "InstanceCreation", user=stranger)
    world.admit("instances", instance, "InstanceCreation", user=User(controller_user("deployment")))


WHERE = {"topology.kubernetes.io/zone": "lhr", "topology.kubernetes.io/region": "eu"}


async def bound(world: World, labels: dict[str, str], kind: str = "Node") -> dict[str, str] | None:
    """The labels of a binding to a node, as it leaves admission."""
    await world.put("nodes", {"metadata": {"name": "n1", "labels": {**WHERE, "rack": "r1"}}})
    metadata: dict[str, Any] = {"name": "p", "namespace": "default", "labels": labels}
    binding: dict[str, Any] = {"metadata": metadata, "target": {"kind": kind, "name": "n1"}}
    attributes = Attributes("CREATE", world.resource("pods"), "binding", "default", "p", binding, None, ADMIN)
    world.chain().admit(attributes)
    return binding["metadata"].get("labels")


async def test_a_binding_brings_the_zone_and_region_of_the_node(world: World) -> None:
    assert await bound(world, {}) == WHERE


async def test_where_the_binding_says_otherwise_the_node_is_right(world: World) -> None:
    assert await bound(world, {"topology.kubernetes.io/zone": "mine", "a": "b"}) == {**WHERE, "a": "b"}


async def test_bindings_to_other_kinds_than_nodes_get_no_topology_labels(world: World) -> None:
    assert await bound(world, {"a": "b"}, kind="") == {"a": "b"}


async def test_a_pod_made_on_a_node_says_where_that_is(world: World) -> None:
    await world.put("nodes", {"metadata": {"name": "n1", "labels": WHERE}})
    made = pod(nodeName="n1")
    made["metadata"]["labels"] = {"topology.kubernetes.io/zone": "mine"}
    labels = (world.admit("pods", made).obj or {})["metadata"]["labels"]
    assert labels == WHERE
    lost = (world.admit("pods", pod("q", nodeName="gone")).obj or {})["metadata"]
    assert "labels" not in lost
