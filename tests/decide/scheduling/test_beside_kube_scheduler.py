"""Preemption by kube-scheduler 1.35 and by ours, compared on a hundred random clusters.

All clusters are on one stock API server, full and idle, before the stock scheduler starts. No kubelet runs, so victims
stay where they are, marked as deleted, and the pod to schedule stays nominated: that is the decision. Our function
decides on the same objects, as the API server returns them.

Two decisions are equal if the pod gets a node at once that ours accepts; or no pod is preempted in both; or it is
nominated to the node that we choose with exactly our victims. Where several nodes are equal in every comparison
(budgets broken, highest priority, sum, number, start of the most important), kube-scheduler takes any of them, by the
order of a Go map: then its choice has to be one of those, with our victims for that node. Clusters have few enough
nodes that kube-scheduler tries them all.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable
from typing import NamedTuple

import pytest

from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import BUDGETS, NAMESPACES, NODES, PODS
from tarmac.decide.scheduling import Cluster, Demands, Pod, PreemptionCandidate, Scheduler, guard_of, node_of
from tarmac.decide.scheduling.filters import LABELS, NODE_FILTERS, POOL_FILTERS
from tarmac.decide.scheduling.preemption import best, candidates
from tests.decide.scheduling.random_clusters import WANTED, RandomCluster, priority_classes, random_cluster
from tests.decide.scheduling.world import Json
from tests.support.peer import running_peer, running_scheduler

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.timeout(300)]

CLUSTERS = 100
AT_ONCE = 16  # concurrent requests
SETTLED = 5  # equal lists in a row
PRIORITIES = dynamic("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False)


class Outcome(NamedTuple):
    """The result for a pod: its node, or its nominated node and the victims there."""

    node: str = ""
    nominated: str = ""
    victims: frozenset[str] = frozenset()


class Decided(NamedTuple):
    """The results that our decision allows."""

    outcomes: frozenset[Outcome]
    violations: int = 0


def test_kube_scheduler_ends_whom_we_would_end() -> None:
    clusters = [random_cluster(number) for number in range(CLUSTERS)]
    with running_peer() as peer:

        async def story() -> tuple[dict[str, Decided], dict[str, Outcome]]:
            client = Client(HttpTransport(load(str(peer.kubeconfig)).http))
            try:
                await _build(client, clusters)
                ours = await _ours(client, clusters)
                with running_scheduler(peer):
                    return ours, await _theirs(client)
            finally:
                await client.close()

        ours, theirs = asyncio.run(story())
    differ = [f"{name}: we {ours[name]}\n    they {theirs[name]}" for name in ours if theirs[name] not in ours[name][0]]
    assert not differ, f"{len(differ)} of {len(ours)}:\n" + "\n".join(differ)
    kinds = Counter(_kind(each) for each in theirs.values())
    kinds["budget broken"] = sum(each.violations > 0 for each in ours.values())
    kinds["alike"] = sum(len(each.outcomes) > 1 for each in ours.values() if not any(o.node for o in each.outcomes))
    print(dict(kinds))
    few = {kind: kinds[kind] for kind in ("placed", "left waiting", "one victim", "several", "budget broken", "alike")}
    assert min(few.values()) >= 3, f"the clusters show too little: {few}"


def _kind(outcome: Outcome) -> str:
    if outcome.node:
        return "placed"
    return ("left waiting", "one victim", "several")[min(2, len(outcome.victims))]


async def _build(client: Client, clusters: Iterable[RandomCluster]) -> None:
    """Create the objects, then write the statuses that their controllers would write."""
    clusters = list(clusters)
    await _all(client.resource(PRIORITIES).create(each) for each in priority_classes())
    await _all(client.resource(NAMESPACES).create({"metadata": {"name": each.name}}) for each in clusters)
    await _all(client.resource(NODES).create(node) for each in clusters for node in each.nodes)
    pods, budgets = client.resource(PODS), client.resource(BUDGETS)
    made = [
        (target, obj, each)
        for each in clusters
        for target, kind in ((pods, each.pods), (budgets, each.budgets))
        for obj in kind
    ]
    await _all(target.create(_new(obj)) for target, obj, _ in made)
    await _all(
        target.patch(name, {"status": each.statuses[name]}, each.name, subresource="status")
        for target, obj, each in made
        if (name := obj["metadata"]["name"]) in each.statuses
    )


def _new(obj: Json) -> Json:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "uid"}}


async def _all(calls: Iterable[Awaitable[object]]) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(call: Awaitable[object]) -> None:
        async with limit:
            await call

    await asyncio.gather(*map(one, calls))


async def _ours(client: Client, clusters: Iterable[RandomCluster]) -> dict[str, Decided]:
    """Return our decision for each cluster, on the API server's objects."""
    nodes = (await client.resource(NODES).list()).items
    pods = (await client.resource(PODS).list()).items
    budgets = (await client.resource(BUDGETS).list()).items
    return {
        each.name: _decide(
            [node for node in nodes if node["metadata"]["labels"]["cluster"] == each.name],
            [pod for pod in pods if pod["metadata"]["namespace"] == each.name],
            [budget for budget in budgets if budget["metadata"]["namespace"] == each.name],
        )
        for each in clusters
    }


def _decide(nodes: list[Json], pods: list[Json], budgets: list[Json]) -> Decided:
    cluster, demands = Cluster(), Demands()
    for node in nodes:
        cluster.set_node(node_of(node))
    starts = {pod["metadata"]["uid"]: pod["status"].get("startTime", "") for pod in pods}
    for pod in pods:
        if pod["spec"].get("nodeName"):
            cluster.add_pod(demands.pod(pod), pod["spec"]["nodeName"])
    (obj,) = [pod for pod in pods if pod["metadata"]["name"] == WANTED]
    wanted, scheduler = demands.pod(obj), Scheduler(cluster)
    if scheduler.choose(wanted).value is not None:
        return Decided(frozenset(Outcome(name) for name in cluster.nodes if scheduler.takes(wanted, name)))
    if obj["spec"]["preemptionPolicy"] == "Never":
        return Decided(frozenset({Outcome()}))

    def started(pod: Pod) -> str:
        return starts[pod.uid]

    filters = (*POOL_FILTERS, LABELS, *NODE_FILTERS)
    found = list(candidates(wanted, cluster, filters, [guard_of(budget) for budget in budgets], started))
    chosen = best(found)
    if chosen is None:
        return Decided(frozenset({Outcome()}))
    alike = [each for each in found if (each.cost, each.since) == (chosen.cost, chosen.since)]
    return Decided(frozenset(map(_outcome, alike)), chosen.violations)


def _outcome(candidate: PreemptionCandidate) -> Outcome:
    return Outcome("", candidate.node, frozenset(each.name for each in candidate.victims))


async def _theirs(client: Client) -> dict[str, Outcome]:
    """Return kube-scheduler's result for each cluster, once every pod has a condition and no list changes."""
    seen, same = dict[str, Outcome](), 0
    while same < SETTLED:
        await client.clock.sleep(0.5)
        pods = (await client.resource(PODS).list()).items
        wanted = [pod for pod in pods if pod["metadata"]["name"] == WANTED]
        now = {pod["metadata"]["namespace"]: _became(pod, pods) for pod in wanted}
        same = same + 1 if now == seen and all(map(_answered, wanted)) else 0
        seen = now
    return seen


def _answered(pod: Json) -> bool:
    """Return True once the scheduler has handled a pod."""
    return any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions") or ())


def _became(wanted: Json, pods: Iterable[Json]) -> Outcome:
    own = wanted["metadata"]["namespace"]
    here = [pod["metadata"] for pod in pods if pod["metadata"]["namespace"] == own]
    victims = frozenset(each["name"] for each in here if "deletionTimestamp" in each)
    return Outcome(wanted["spec"].get("nodeName", ""), wanted["status"].get("nominatedNodeName", ""), victims)
