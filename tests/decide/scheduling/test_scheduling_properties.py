"""Scheduling against a slow reference, over random histories of nodes and pods.

After every step the incremental state equals the truth; a chosen node breaks no rule; "no" means that every node breaks
one; and the scheduler's refusals for a node equal those of the reference.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tarmac.decide.reasons import CATALOGUE
from tarmac.decide.scheduling import node_of

from . import reference
from .world import HOSTNAME, Json, World, node, pod, required, spread

NAMES = [f"n{i}" for i in range(5)]
TAINTS = [
    {"key": "dedicated", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
    {"key": "busy", "effect": "PreferNoSchedule"},
]

nodes = st.builds(
    node,
    name=st.sampled_from(NAMES),
    cpu=st.sampled_from(["0", "500m", "1", "2"]),
    memory=st.sampled_from(["512Mi", "1Gi", "4Gi"]),
    pods=st.sampled_from(["0", "1", "3"]),
    labels=st.fixed_dictionaries(
        {}, optional={"zone": st.sampled_from("abc"), "disk": st.sampled_from(["ssd", "hdd"])}
    ),
    taints=st.lists(st.sampled_from(TAINTS), max_size=2, unique_by=lambda taint: taint["key"]),
    unschedulable=st.sampled_from([False, False, False, True]),
)

app = st.sampled_from(["web", "db"])
key = st.sampled_from(["zone", HOSTNAME])


def term(topology_key: str, name: str) -> Json:
    """Draw a term for an app and a domain."""
    return {"topologyKey": topology_key, "labelSelector": {"matchLabels": {"app": name}}}


relations = st.one_of(
    st.just({}),
    st.builds(lambda k, a: required("podAntiAffinity", term(k, a)), key, app),
    st.builds(lambda k, a: required("podAffinity", term(k, a)), key, app),
)


@st.composite
def pods(draw: st.DrawFn, number: int) -> Json:
    """Draw a pod that requests some of every resource."""
    spec: dict[str, Any] = {}
    if draw(st.booleans()):
        spec["nodeSelector"] = draw(st.sampled_from([{"disk": "ssd"}, {"zone": "a"}, {HOSTNAME: "n1"}]))
    if draw(st.booleans()):
        spec["tolerations"] = [{"key": draw(st.sampled_from(TAINTS))["key"], "operator": "Exists"}]
    if draw(st.booleans()):
        spec["topologySpreadConstraints"] = spread(draw(key), draw(st.integers(1, 2)), app=draw(app))
    spec["affinity"] = draw(relations)
    spec["ports"] = [{"hostPort": 80}] if draw(st.integers(0, 3)) == 0 else []
    requests = {
        "cpu": draw(st.sampled_from(["0", "250m", "1"])),
        "memory": draw(st.sampled_from(["0", "256Mi", "1Gi"])),
    }
    return pod(f"p{number}", requests, {"app": draw(app)}, **spec)


class Scheduling(RuleBasedStateMachine):
    """Random events, in step with a plain record of nodes and bound pods."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.nodes: dict[str, Json] = {}
        self.bound: dict[str, tuple[Json, str]] = {}
        self.count = 0

    @rule(obj=nodes)
    def node_appears_or_changes(self, obj: Json) -> None:
        """Also with less capacity than its pods use."""
        self.nodes[obj["metadata"]["name"]] = obj
        self.world.cluster.set_node(node_of(obj))

    @rule(name=st.sampled_from(NAMES))
    def node_goes(self, name: str) -> None:
        """Its pods stay known."""
        self.nodes.pop(name, None)
        self.world.cluster.remove_node(name)

    @rule(data=st.data())
    def pod_is_scheduled(self, data: st.DataObject) -> None:
        """Compare the answer with the reference."""
        obj = data.draw(pods(self.count))
        self.count += 1
        verdict = self.world.choose(obj)
        good = reference.feasible(obj, self.nodes, self.bound)
        if verdict.value is None:
            assert not good
            self._check_refusals(obj)
        else:
            assert verdict.value in good
            self.world.cluster.add_pod(self.world.read(obj), verdict.value)
            self.bound[obj["metadata"]["name"]] = (obj, verdict.value)

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def pod_is_bound_by_someone_else(self, data: st.DataObject, name: str) -> None:
        """On any node, even without room or before the node exists."""
        obj = data.draw(pods(self.count))
        self.count += 1
        self.world.cluster.add_pod(self.world.read(obj), name)
        self.bound[obj["metadata"]["name"]] = (obj, name)

    @precondition(lambda self: self.bound)
    @rule(data=st.data())
    def binding_is_confirmed(self, data: st.DataObject) -> None:
        """A repeated event changes nothing."""
        obj, name = self.bound[data.draw(st.sampled_from(sorted(self.bound)))]
        self.world.cluster.add_pod(self.world.read(obj), name)

    @precondition(lambda self: self.bound)
    @rule(data=st.data())
    def pod_goes(self, data: st.DataObject) -> None:
        """Its room is free again."""
        name = data.draw(st.sampled_from(sorted(self.bound)))
        del self.bound[name]
        self.world.cluster.remove_pod(name)

    @invariant()
    def what_is_free_is_the_truth(self) -> None:
        """The incremental amounts equal a recount."""
        cluster = self.world.cluster
        assert cluster.nodes.keys() == self.nodes.keys()
        for name, info in cluster.nodes.items():
            free = reference.left(self.nodes[name], self.bound)
            assert info.free["cpu"] == free["cpu"]
            assert info.free["memory"] * 1000 == free["memory"]
            assert info.free["pods"] * 1000 == free["pods"]
            assert info.pods.keys() == {pod for pod, (_, where) in self.bound.items() if where == name}

    @invariant()
    def every_node_is_in_exactly_one_pool(self) -> None:
        """In the bucket of its level, at its recorded slot."""
        cluster = self.world.cluster
        seen = [info for pool in cluster.pools.values() for info in pool]
        assert sorted(info.node.name for info in seen) == sorted(cluster.nodes)
        for pool in cluster.pools.values():
            assert pool.size == sum(map(len, pool.buckets.values())) > 0
            for level, bucket in pool.buckets.items():
                assert all(info.slot == slot and info.pool is pool for slot, info in enumerate(bucket))
                assert all(info.level == level == info.current_level() for info in bucket)

    @invariant()
    def counts_of_pods_are_the_truth(self) -> None:
        """Every tally equals a recount, and so does its lowest count."""
        census = self.world.cluster.census
        for tally in census._tallies.values():
            recount = {tally.domain(info.node): 0 for info in self.world.cluster.nodes.values()}
            for info in self.world.cluster.nodes.values():
                for other in info.pods.values():
                    recount[tally.domain(info.node)] += tally.term.matches(other.namespace, other.labels)
            recount.pop(None, None)
            assert tally.counts == recount
            assert tally.least == min(recount.values(), default=0)

    def _check_refusals(self, obj: Json) -> None:
        """Node by node the same rules; every "no" has a known reason and a change."""
        said: dict[str, set[str]] = {}
        for refusal in self.world.scheduler.refusals(self.world.read(obj)):
            said.setdefault(refusal.where, set()).add(refusal.rule)
            assert refusal.reason in CATALOGUE
            assert refusal.message.endswith(".")
            assert refusal.change.endswith(".")
        for name, where in self.nodes.items():
            assert said[name] == reference.broken(obj, where, self.nodes, self.bound)
        head, *kinds = self.world.choose(obj).refusals
        assert head.reason in CATALOGUE
        assert head.change
        assert bool(kinds) == bool(self.nodes)


Scheduling.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # explaining a failure traces every line
)
TestScheduling = Scheduling.TestCase
