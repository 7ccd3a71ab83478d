"""The scheduler's views of pods and nodes."""

from __future__ import annotations

import pytest

from tarmac.decide.scheduling import Demands, Taint, node_of, requests_of

from .world import LOCATION, Json, node, pod

G = 1 << 30


def container(cpu: str, memory: str = "0", **fields: str) -> Json:
    """Return a container with requests."""
    return {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **fields}


@pytest.mark.parametrize(
    ("spec", "amounts"),
    [
        ({"containers": [container("1"), container("500m")]}, {"cpu": 1500}),
        ({"containers": [container("1m", "500m"), container("1m", "500m")]}, {"cpu": 2, "memory": 1}),
        ({"containers": [container("1")], "initContainers": [container("3"), container("2")]}, {"cpu": 3000}),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1", restartPolicy="Always"), container("3")],
            },
            {"cpu": 4000},
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "1Gi"}}, {"cpu": 1250, "memory": G}),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}}, {"cpu": 5000}),
        ({"containers": [{"name": "c"}]}, {}),
    ],
)
def test_requests_of_a_pod_add_up_as_in_kubernetes(spec: Json, amounts: dict[str, int]) -> None:
    """Containers add up before they are rounded; init containers count by their largest step, sidecars stay."""
    assert requests_of(spec) == amounts


def test_pods_that_ask_for_the_same_share_one_demand() -> None:
    """Names and labels do not matter; resources do."""
    demands = Demands()
    first, second = pod("a-0", {"cpu": "1"}, {"ordinal": "0"}), pod("a-1", {"cpu": "1"}, {"ordinal": "1"})
    other = pod("b", {"cpu": "2"})
    assert demands.pod(first).demand is demands.pod(second).demand
    assert demands.pod(first).demand is not demands.pod(other).demand


def test_the_location_is_read_from_the_node_selector() -> None:
    """It is no ordinary label: pools are built by it."""
    demand = Demands().pod(pod("a", nodeSelector={LOCATION: "dfw"})).demand
    assert demand.location == "dfw"
    assert demand.nodes is None


def test_pods_of_one_deployment_are_one_group() -> None:
    """Each Instance owns its Pod, so the label decides; otherwise the owner does."""
    demands = Demands()
    labelled = pod("a", labels={"compute.datumapis.com/workload-deployment-name": "web"})
    owned = pod("b")
    owned["metadata"]["ownerReferences"] = [{"uid": "x"}, {"uid": "rs", "controller": True}]
    assert [demands.pod(obj).group for obj in (labelled, owned, pod("c"))] == ["default/web", "rs", ""]


def test_a_node_is_read_whole() -> None:
    """Amounts as numbers, taints in a fixed order, handlers only if it names them."""
    taints = [{"key": "b", "effect": "NoSchedule"}, {"key": "a", "value": "1", "effect": "NoExecute"}]
    obj = node("n", "1500m", "1Gi", labels={LOCATION: "dfw"}, taints=taints, handlers=["", "gvisor"])
    obj["status"]["images"] = [{"names": ["app:1", "app@sha256:0"], "sizeBytes": 7}]
    read = node_of(obj)
    assert read.allocatable == {"cpu": 1500, "memory": G, "pods": 10}
    assert read.taints == (Taint("a", "1", "NoExecute"), Taint("b", "", "NoSchedule"))
    assert (read.location, read.handlers, read.unschedulable) == ("dfw", frozenset({"", "gvisor"}), False)
    assert read.images == {"app:1": 7, "app@sha256:0": 7}
    assert node_of(node("m")).handlers is None
