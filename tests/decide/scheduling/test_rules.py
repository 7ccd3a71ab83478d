"""Each rule: a node that it refuses, with reason, message and smallest change, and a node that it accepts."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.decide.reasons import CATALOGUE
from tarmac.decide.scheduling import Disk, any_of, node_of

from .world import HOSTNAME, LOCATION, Json, World, node, pod, required, spread

ZONE_A, ZONE_B = {"zone": "a"}, {"zone": "b"}
DEDICATED = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
APP = {"matchLabels": {"app": "web"}}
GPU = "example.com/gpu"
PASSED_ON = {"node.tarmac/devices": '{"resources":["example.com/gpu"],"handlers":["","kata","runc"]}'}


def only(name: str) -> list[Json]:
    """Return the node affinity of a disk."""
    return [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [name]}]}]


REFUSALS: list[tuple[str, Json, Json, str, str, str, str]] = [
    (
        "processors",
        node("n", cpu="2"),
        pod("p", {"cpu": "2500m"}),
        "InsufficientCapacity",
        "0/1 nodes: 1 Insufficient cpu.",
        "Needs 2.5 CPUs; n has 2 free.",
        "Ask for at most 2 CPUs, or free 0.5 CPUs on n.",
    ),
    (
        "a device nobody has",
        node("n"),
        pod("p", {"datumcloud.com/nvidia-tesla-a100": "1"}),
        "InsufficientCapacity",
        "0/1 nodes: 1 Insufficient datumcloud.com/nvidia-tesla-a100.",
        "Needs 1 datumcloud.com/nvidia-tesla-a100; n has 0 free.",
        "Free 1 datumcloud.com/nvidia-tesla-a100 on n.",
    ),
    (
        "number of pods",
        node("n", pods="0"),
        pod("p"),
        "InsufficientCapacity",
        "0/1 nodes: 1 Insufficient pods.",
        "Needs room for 1 pod; n has 0 free.",
        "Free room for 1 pod on n.",
    ),
    (
        "taint",
        node("n", taints=[DEDICATED]),
        pod("p"),
        "TaintNotTolerated",
        "0/1 nodes: 1 untolerated taint dedicated=db:NoSchedule.",
        "Node n has taint dedicated=db:NoSchedule.",
        "Tolerate dedicated=db:NoSchedule, or remove it from n.",
    ),
    (
        "not ready",
        node("n", taints=[NOT_READY]),
        pod("p"),
        "NodeNotReady",
        "0/1 nodes: 1 not ready.",
        "Node n is not ready.",
        "Bring n back to ready.",
    ),
    (
        "cordon",
        node("n", unschedulable=True),
        pod("p"),
        "NodeUnschedulable",
        "0/1 nodes: 1 cordoned.",
        "Node n is cordoned.",
        "Uncordon n.",
    ),
    (
        "node selector",
        node("n", labels=ZONE_A),
        pod("p", nodeSelector=ZONE_B),
        "NodeAffinityMismatch",
        "0/1 nodes: 1 no match for zone=b.",
        "Node n does not match zone=b.",
        "Label n so that it matches zone=b.",
    ),
    (
        "node affinity",
        node("n", labels={"cores": "8"}),
        pod(
            "p",
            affinity=required(
                "nodeAffinity", {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]}
            ),
        ),
        "NodeAffinityMismatch",
        "0/1 nodes: 1 no match for cores>8.",
        "Node n does not match cores>8.",
        "Label n so that it matches cores>8.",
    ),
    (
        "runtime",
        node("n", handlers=["runc"]),
        pod("p", runtimeClassName="gvisor"),
        "RuntimeUnavailable",
        "0/1 nodes: 1 no runtime gvisor.",
        "Node n does not offer runtime gvisor.",
        "Install gvisor on n, or ask for the RuntimeClass runc, which takes the right to use it.",
    ),
    (
        "a device under a kernel of its own",
        node("n", handlers=["gvisor", "runc"], annotations=PASSED_ON, devices={GPU: "1"}),
        pod("p", {GPU: "1"}, runtimeClassName="gvisor"),
        "DeviceUnsupported",
        "0/1 nodes: 1 no devices under gvisor.",
        "Runtime gvisor of node n does not pass example.com/gpu on to containers.",
        "Ask for a RuntimeClass that does (kata, runc), which takes the right to use it.",
    ),
    (
        "a runtime that is not there, and a device",
        node("n", handlers=["runc"], annotations=PASSED_ON, devices={GPU: "1"}),
        pod("p", {GPU: "1"}, runtimeClassName="gvisor"),
        "RuntimeUnavailable",
        "0/1 nodes: 1 no runtime gvisor.",
        "Node n does not offer runtime gvisor.",
        "Install gvisor on n, or ask for the RuntimeClass runc, which takes the right to use it.",
    ),
    (
        "devices that are not healthy",
        node("n", annotations=PASSED_ON, capacity={GPU: "4"}, devices={GPU: "1"}),
        pod("p", {GPU: "2"}),
        "InsufficientCapacity",
        "0/1 nodes: 1 Insufficient example.com/gpu.",
        "Needs 2 example.com/gpu; n has 1 free, 3 unhealthy.",
        "Ask for at most 1 example.com/gpu, or free 1 example.com/gpu on n.",
    ),
    (
        "location",
        node("n", labels={LOCATION: "sea"}),
        pod("p", nodeSelector={LOCATION: "dfw"}),
        "NoNodes",
        "No node belongs to Location dfw.",
        "",
        "Add a node to Location dfw.",
    ),
    (
        "company",
        node("n", labels=ZONE_A),
        pod("p", affinity=required("podAffinity", {"topologyKey": "zone", "labelSelector": APP})),
        "PodAffinityUnsatisfied",
        "0/1 nodes: 1 no pod matching app=web near.",
        "No pod matching app=web is in zone=a.",
        "Start a pod matching app=web in zone=a.",
    ),
    (
        "spread over a label the node lacks",
        node("n"),
        pod("p", topologySpreadConstraints=spread("zone", app="web")),
        "TopologySpreadUnsatisfied",
        "0/1 nodes: 1 too many over zone.",
        "Node n has no label zone.",
        "Label n with zone.",
    ),
]


@pytest.mark.parametrize(
    ("where", "obj", "reason", "summary", "message", "change"),
    [case[1:] for case in REFUSALS],
    ids=[case[0] for case in REFUSALS],
)
def test_a_refusal_in_words(where: Json, obj: Json, reason: str, summary: str, message: str, change: str) -> None:
    """The summary has the change; the refusal of each kind has the details."""
    handler = obj["spec"].get("runtimeClassName", "")
    verdict = World(where).choose(obj, handler=handler)
    assert verdict.value is None
    assert reason in CATALOGUE
    head, *kinds = verdict.refusals
    assert (head.reason, head.message, head.change) == (reason, summary, change)
    assert [(kind.message, kind.where) for kind in kinds] == ([(message, "n")] if message else [])


def test_the_selector_of_a_pod_of_another_namespace_is_not_told() -> None:
    apart = required("podAntiAffinity", {"topologyKey": "zone", "labelSelector": APP, "namespaceSelector": {}})
    world = World(node("n", labels={"zone": "a"}))
    world.run(pod("secret", namespace="shop", affinity=apart), on="n")
    theirs = world.choose(pod("p", labels={"app": "web"}))
    assert "app=web" not in str(theirs)
    assert "A pod that must be apart from this one is in zone=a." in [each.message for each in theirs.refusals]
    world.run(pod("q", labels={"app": "web"}, namespace="team"), on="n")
    own = world.choose(pod("r", namespace="team", affinity=required("podAntiAffinity", apart_of(APP))))
    assert "A pod that must be apart from this one is in zone=a (app=web)." in [each.message for each in own.refusals]


def apart_of(selector: Json) -> Json:
    return {"topologyKey": "zone", "labelSelector": selector}


TOLERATED: list[tuple[Json, dict[str, Any]]] = [
    (node("n", taints=[DEDICATED]), {"tolerations": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]}),
    (node("n", taints=[DEDICATED]), {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}),
    (node("n", taints=[DEDICATED, NOT_READY]), {"tolerations": [{"operator": "Exists"}]}),
    (node("n", taints=[{"key": "busy", "effect": "PreferNoSchedule"}]), {}),
    (
        node("n", unschedulable=True),
        {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]},
    ),
    (node("n", labels=ZONE_A), {"nodeSelector": ZONE_A}),
    (node("n", labels={LOCATION: "dfw"}), {"nodeSelector": {LOCATION: "dfw"}}),
    (
        node("n"),
        {
            "affinity": required(
                "nodeAffinity", {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
            )
        },
    ),
    (node("n"), {"affinity": required("nodeAffinity", *only("x"), *only("n"))}),
    (node("n"), {"runtimeClassName": "gvisor"}),
    (node("n", handlers=["gvisor"]), {"runtimeClassName": "gvisor"}),
]


@pytest.mark.parametrize(("where", "spec"), TOLERATED)
def test_nodes_that_satisfy_a_pod_are_not_refused(where: Json, spec: dict[str, Any]) -> None:
    """Tolerations, matching labels, offered runtimes, and nodes without a list of runtimes."""
    assert World(where).choose(pod("p", **spec), handler=spec.get("runtimeClassName", "")).value == "n"


@pytest.mark.parametrize(
    "annotations", [{}, {"node.tarmac/devices": "nonsense"}, {"node.tarmac/devices": "[]"}, PASSED_ON]
)
@pytest.mark.parametrize(("asked", "handler"), [(GPU, "runc"), (GPU, ""), ("example.com/counted", "gvisor")])
def test_devices_are_passed_on_where_nothing_else_is_said(
    annotations: dict[str, str], asked: str, handler: str
) -> None:
    """By the handlers that a node names, and for resources that are no devices by all of them."""
    where = node("n", annotations=annotations, devices={asked: "1"})
    assert World(where).choose(pod("p", {asked: "1"}), handler=handler).value == "n"


@pytest.mark.parametrize(
    "tolerations",
    [[{"key": "dedicated", "value": "web"}], [{"key": "dedicated", "effect": "NoExecute", "operator": "Exists"}]],
)
def test_a_toleration_for_something_else_does_not_help(tolerations: list[Json]) -> None:
    """Value and effect must fit."""
    assert World(node("n", taints=[DEDICATED])).choose(pod("p", tolerations=tolerations)).value is None


@pytest.mark.parametrize(
    ("used", "wanted", "clash"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 81}, False),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, True),
    ],
)
def test_ports_of_the_node(used: Json, wanted: Json, clash: bool) -> None:
    """Same number and protocol conflict, unless each is for an address of its own."""
    world = World(node("n"))
    world.run(pod("a", ports=[used]), on="n")
    verdict = world.choose(pod("b", ports=[wanted]))
    assert (verdict.value is None) == clash
    if clash:
        assert verdict.refusals[0].reason == "PortInUse"
        assert verdict.refusals[0].change == "Use another hostPort than 80/TCP."
    world.cluster.remove_pod("a")
    assert world.choose(pod("b", ports=[wanted])).value == "n"


def test_a_pod_goes_where_its_disk_is() -> None:
    """Even if other nodes are emptier."""
    world = World(node("a"), node("b"), node("c"))
    assert world.choose(pod("p"), disks=[Disk("p-data", any_of(only("b")))]).value == "b"


def test_a_pod_whose_disk_is_on_a_full_node_waits() -> None:
    """The refusal names the cause."""
    world = World(node("a"), node("b", cpu="1"))
    verdict = world.choose(pod("p", {"cpu": "2"}), disks=[Disk("p-data", any_of(only("b")))])
    assert verdict.refusals[0].reason == "InsufficientCapacity"
    assert verdict.refusals[0].change == "Ask for at most 1 CPU, or free 1 CPU on b."
    assert {refusal.reason for refusal in verdict.refusals[1:]} == {"InsufficientCapacity", "DiskElsewhere"}


@pytest.mark.parametrize("nodes", [[node("a")], [node("a"), node("b", taints=[NOT_READY])]])
def test_a_disk_on_a_lost_node_is_told_first(nodes: list[Json]) -> None:
    """Missing or not ready: the data is there, so no other change helps."""
    verdict = World(*nodes).choose(pod("p"), disks=[Disk("p-data", any_of(only("b")))])
    assert verdict.refusals[0].reason == "DiskOnLostNode"
    assert verdict.refusals[0].change == "Bring b back, or delete claim p-data to start with a new, empty disk."


def test_spread_over_zones_is_kept_even() -> None:
    """No zone may exceed the emptiest by more than the skew."""
    world = World(node("a1", labels=ZONE_A), node("a2", labels=ZONE_A), node("b1", labels=ZONE_B, cpu="1"))
    web = {"app": "web"}
    chosen = [
        world.run(pod(f"p{i}", {"cpu": "500m"}, web, topologySpreadConstraints=spread("zone", app="web")))
        for i in range(5)
    ]
    assert sum(name == "b1" for name in chosen) == 2
    verdict = world.choose(pod("p6", {"cpu": "500m"}, web, topologySpreadConstraints=spread("zone", app="web")))
    assert verdict.value is None
    assert {refusal.reason for refusal in verdict.refusals} == {"InsufficientCapacity", "TopologySpreadUnsatisfied"}
    skewed = [refusal for refusal in verdict.refusals if refusal.rule == "spread"]
    assert skewed[0].change == "Raise maxSkew for zone to 2, or make room where there are fewest."


def test_spread_counts_only_domains_that_the_pod_may_use() -> None:
    """A zone that the node selector excludes does not limit the others."""
    world = World(node("a", labels={**ZONE_A, "disk": "ssd"}), node("b", labels=ZONE_B))
    spec = {"topologySpreadConstraints": spread("zone", app="web"), "nodeSelector": {"disk": "ssd"}}
    assert [world.run(pod(f"p{i}", None, {"app": "web"}, **spec)) for i in range(3)] == ["a", "a", "a"]


def test_spread_over_too_few_domains_counts_from_zero() -> None:
    """With minDomains, a zone that does not exist yet counts as empty."""
    world = World(node("a", labels=ZONE_A))
    constraint = [{**spread("zone", app="web")[0], "minDomains": 2}]
    placed = [world.run(pod(f"p{i}", None, {"app": "web"}, topologySpreadConstraints=constraint)) for i in range(2)]
    assert placed == ["a", None]
    world.cluster.set_node(node_of(node("b", labels=ZONE_B)))
    assert world.choose(pod("p2", None, {"app": "web"}, topologySpreadConstraints=constraint)).value == "b"


def test_spread_with_match_label_keys_counts_one_revision() -> None:
    """Pods of an older revision do not count."""
    world = World(node("a", labels=ZONE_A), node("b", labels=ZONE_B))
    constraint = [{**spread("zone", app="web")[0], "matchLabelKeys": ["revision"]}]
    for i in range(3):
        world.run(pod(f"old{i}", None, {"app": "web", "revision": "1"}), on="a")
    new = [
        world.run(pod(f"new{i}", None, {"app": "web", "revision": "2"}, topologySpreadConstraints=constraint))
        for i in range(2)
    ]
    assert sorted(map(str, new)) == ["a", "b"]


def test_pods_that_avoid_each_other_get_nodes_of_their_own() -> None:
    """A pod that others avoid is kept away from them, even without rules of its own."""
    world = World(node("a"), node("b"))
    alone = {"affinity": required("podAntiAffinity", {"topologyKey": HOSTNAME, "labelSelector": APP})}
    assert {world.run(pod("p", None, {"app": "web"}, **alone)), world.run(pod("q", None, {"app": "web"}, **alone))} == {
        "a",
        "b",
    }
    verdict = world.choose(pod("r", None, {"app": "web"}))
    assert verdict.value is None
    assert verdict.refusals[0].reason == "PodAntiAffinityUnsatisfied"
    assert world.choose(pod("s", None, {"app": "other"})).value is not None
    assert world.choose(pod("t", None, {"app": "web"}, namespace="elsewhere")).value is not None
    world.cluster.remove_pod("p")
    assert world.choose(pod("r", None, {"app": "web"})).value is not None


def test_the_first_of_pods_that_want_company_is_let_in() -> None:
    """The others follow it into its zone."""
    world = World(node("a", labels=ZONE_A), node("b", labels=ZONE_B), node("b2", labels=ZONE_B))
    together = {"affinity": required("podAffinity", {"topologyKey": "zone", "labelSelector": APP})}
    world.run(pod("p0", None, {"app": "web"}, **together), on="b")
    assert {world.run(pod(f"p{i}", None, {"app": "web"}, **together)) for i in range(1, 4)} == {"b", "b2"}
    first = World(node("a", labels=ZONE_A))
    assert first.choose(pod("p", None, {"app": "web"}, **together)).value == "a"


def test_namespaces_of_a_term() -> None:
    """Named ones, all of them, or one by its name label."""
    for extra, found in [
        ({}, False),
        ({"namespaces": ["other"]}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, False),
    ]:
        world = World(node("a"))
        world.run(pod("q", None, {"app": "web"}, namespace="other"), on="a")
        near = required("podAffinity", {"topologyKey": HOSTNAME, "labelSelector": APP, **extra})
        assert (world.choose(pod("p", affinity=near)).value == "a") == found, extra
