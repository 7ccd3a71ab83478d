"""Decisions over many cities, places, instances, pods and nodes cost no more than n log n.

Each decision is measured with 10, 100, 1,000 and 10,000 objects, or as many as one object can name. Explanations and
plans run beside the loop and may take longer; code of controllers may not.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import log
from time import thread_time
from typing import NamedTuple

import msgspec
import pytest

from tarmac.api.compute.workload import Counters, Placement, PlacementSelector, ScaleSettings, Workload
from tarmac.api.declare import decode
from tarmac.api.networking.names import TOPOLOGY_CITY_CODE
from tarmac.api.schema import JsonObject
from tarmac.api.shared import Condition
from tarmac.base.quantity import Quantity
from tarmac.controllers.networkaddresses import NetworkAddresses
from tarmac.decide.addresses.interfaceaddresses import Pools, SubnetPool, assign
from tarmac.decide.addresses.subnets import carve
from tarmac.decide.derived.goal import goal_of
from tarmac.decide.endpoints import EndpointsBuilder, EndpointsFacts, mirrors
from tarmac.decide.endpoints.groups import grouped
from tarmac.decide.endpoints.shares import shared_out
from tarmac.decide.explain.deployments import explain_deployment
from tarmac.decide.explain.pods import explain_pod
from tarmac.decide.explain.workloads import explain_workload
from tarmac.decide.placement import LocationView, cities_of
from tarmac.decide.plans.workload import plan_workload
from tarmac.decide.quota import Claim, Quota, admit
from tarmac.decide.rollout import CityGoal, plan
from tarmac.decide.rollout.fleet import RolloutLimits
from tarmac.decide.rollout.waves import RolloutFacts, waves
from tarmac.decide.rollup.deployment import DeploymentFacts, deployment_status
from tarmac.decide.rollup.tally import DeploymentTally
from tarmac.decide.rollup.view import DeploymentView
from tarmac.decide.rollup.workload import PlacementFacts, WorkloadFacts, workload_status
from tarmac.decide.scaling.behavior import History, scale
from tarmac.decide.scaling.metrics import InstanceUse, ResourceReading
from tarmac.decide.snapshot.snapshot import DEPLOYMENTS
from tests.decide.endpoints.test_endpoints_of_services import pod as endpoint_pod
from tests.decide.endpoints.test_endpoints_of_services import service
from tests.decide.explain.world import Scene, workload
from tests.decide.rollout.test_waves_of_cities import HISTORY, city
from tests.decide.rollout.world import instance
from tests.support.working import finished

pytestmark = [pytest.mark.timeout(120)]

NOW = 1_800_000_000.0
STEEPEST = 3.0  # times n log n
AGAIN = 4  # times a measurement that seems steep is repeated: neighbours on the machine evict its caches
WORTH_COMPARING = 0.002  # seconds
ONE = decode(ScaleSettings, {"minReplicas": 1})
MANY, CITIES = (10, 100, 1000, 10_000), (10, 100, 1000)  # a placement names 1,000 at most
Decision = Callable[[], object]


class Cost(NamedTuple):
    size: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds * 1000:8.2f} ms for {self.size}"


def codes(count: int) -> list[str]:
    return [f"C{number:04}" for number in range(count)]


def rollup_of_cities(count: int) -> Decision:
    fine = Condition("Available", "True", "AvailableDeploymentFound")
    going = Condition("Progressing", "True", "Scaling", "going on")
    views = [
        DeploymentView(city=each, available=fine, progressing=going, counters=Counters(desired_replicas=2))
        for each in codes(count)
    ]

    def decide() -> object:
        tally = DeploymentTally((view.city, view) for view in views)
        placements = [PlacementFacts(name="all", cities=codes(count), deployments=tally)]
        facts = WorkloadFacts(generation=1, placements=placements)
        return workload_status(facts, workload_status(facts, None, NOW), NOW)

    return decide


def rollup_of_placements(count: int) -> Decision:
    tally = DeploymentTally([("web", DeploymentView(city="A", counters=Counters(desired_replicas=2)))])
    placements = [PlacementFacts(name=each, cities=["A"], deployments=tally) for each in codes(count)]
    facts = WorkloadFacts(generation=1, placements=placements)
    return lambda: workload_status(facts, workload_status(facts, None, NOW), NOW)


def rollup_of_instances(count: int) -> Decision:
    instances = [instance(number, ready=number % 3 > 0) for number in range(count)]
    facts = DeploymentFacts(city="A", generation=1, desired=count, template_hash="a", instances=instances)
    return lambda: deployment_status(facts, deployment_status(facts, None, NOW)[0], NOW)


def places(count: int) -> list[LocationView]:
    return [
        LocationView(f"l{each.lower()}", {TOPOLOGY_CITY_CODE: each}, ready=number % 3 > 0)
        for number, each in enumerate(codes(count))
    ]


def placement_by_city(count: int) -> Decision:
    placement, there = Placement(name="all", city_codes=codes(count), scale_settings=ONE), places(count)
    return lambda: cities_of(placement, there)


def placement_by_selector(count: int) -> Decision:
    terms = [{"key": TOPOLOGY_CITY_CODE, "operator": "Exists"}]
    chosen = {"name": "all", "locationSelector": {"matchExpressions": terms}, "scaleSettings": {"minReplicas": 1}}
    placement = decode(Placement, chosen)
    there = places(count)
    return lambda: cities_of(placement, there)


def steps(ordered: bool) -> Callable[[int], Decision]:
    def decision(count: int) -> Decision:
        instances = [instance(number, "a" if number % 2 else "b", deleting=number % 7 == 0) for number in range(count)]
        goal = CityGoal(count, "b", RolloutLimits(max(1, count // 4), count // 4), ordered=ordered)
        return lambda: plan(goal, instances)

    return decision


def waves_of_cities(count: int) -> Decision:
    cities = [city(each, "r2" if number < count // 3 else "r1") for number, each in enumerate(codes(count))]
    facts = RolloutFacts(HISTORY, cities)
    return lambda: waves(facts, NOW)


def children_of_a_workload(count: int) -> Decision:
    asked = workload(*codes(count))
    existing, decoded, there = list(Scene().deploy(asked).values()), decode(Workload, asked), places(count)
    return lambda: goal_of(decoded, there, existing, NOW)


def placement_by_expression(count: int) -> Decision:
    placement = Placement(name="all", selector=PlacementSelector("cityCode.startsWith('C')"), scale_settings=ONE)
    there = places(count)
    return lambda: cities_of(placement, there)


def quota_for_instances(count: int) -> Decision:
    claims = [Claim(f"i{number}", {"cpu": Quantity.parse("1")}, float(number % 50)) for number in range(count)]
    half = Quota("half", {"requests.cpu": Quantity.parse(str(count // 2))})
    return lambda: admit([half], {}, claims[: count // 4], claims[count // 4 :])


def endpoints_of_a_service(count: int) -> Decision:
    asked = service()
    pods = [
        endpoint_pod(f"p{number}", f"10.{number // 65536}.{number // 256 % 256}.{number % 256}")
        for number in range(count)
    ]
    return lambda: grouped(asked, pods)


def endpoints_at_many_ports(count: int) -> Decision:
    """Ports times pods: each of 1,000 pods has as many named ports as the Service requests."""
    ports: list[JsonObject] = [{"name": f"p{number}", "port": 1 + number} for number in range(count)]
    asked = service(ports=[{**each, "targetPort": each["name"]} for each in ports])
    own = [{"name": each["name"], "containerPort": each["port"]} for each in ports]
    pods = [
        endpoint_pod(f"p{number}", f"10.0.{number // 256}.{number % 256}", containers=[{"ports": own}])
        for number in range(1000)
    ]
    return lambda: grouped(asked, pods)


def endpoints_as_an_object(count: int) -> Decision:
    """Pods with many different numbers for a named port: as many subsets as possible."""
    asked = service()
    pods = [
        endpoint_pod(f"p{number}", f"10.{number // 65536}.{number // 256 % 256}.{number % 256}", port=1 + number % 5000)
        for number in range(count)
    ]

    def listed() -> object:
        listing = EndpointsBuilder(asked)
        for pod in pods:
            listing.add(pod)
        known = finished(listing.object(None))
        return finished(listing.object(known))

    return listed


def mirrored_endpoints(count: int) -> Decision:
    subsets: list[JsonObject] = [
        {"addresses": [{"ip": f"10.0.{number // 256}.{number % 256}"}], "ports": [{"name": f"p{number}", "port": 1}]}
        for number in range(count)
    ]
    subsets.append({"addresses": [{"ip": "192.0.2.1"}], "ports": [each["ports"][0] for each in subsets]})
    endpoints = msgspec.convert({"metadata": {"name": "web"}, "subsets": subsets}, EndpointsFacts)
    return lambda: finished(mirrors(endpoints))


def endpoints_in_slices(count: int) -> Decision:
    uids = [f"u{number}" for number in range(count)]
    present = {number: uids[number * 50 : number * 50 + 50] for number in range(count // 50 + 1)}
    return lambda: shared_out(present, [*uids[count // 2 :], *(f"new{number}" for number in range(count // 2))])


def addresses_of_instances(count: int) -> Decision:
    def decide() -> None:
        pools: Pools = {"IPv4": (SubnetPool.of("10.128.0.0/16"),)}
        for _ in range(count):
            given = assign(pools, ["IPv4"]).value
            assert given is not None
            pools = given.pools

    return decide


def subnets_of_a_network(count: int) -> Decision:
    taken = [f"10.{128 + number // 4096}.{number // 16 % 256}.{number % 16 * 16}/28" for number in range(count)]
    return lambda: carve("10.128.0.0/9", taken, 28)


def addresses_in_many_cities(count: int) -> Decision:
    """Some instances in each city; decide about its subnet while other instances hold addresses."""

    def decide() -> None:
        network = NetworkAddresses()
        for number in range(count):
            for _ in range(3):
                taken = network.pool(f"10.{number // 256}.{number % 256}.0/24").take()
                assert taken is not None
                network.hold(taken[0])

    return decide


def scaling_by_use(count: int) -> Decision:
    settings = decode(
        ScaleSettings,
        {
            "minReplicas": 1,
            "maxReplicas": 100_000,
            "metrics": [{"resource": {"name": "cpu", "target": {"averageUtilization": 50}}}],
        },
    )
    reading = ResourceReading([InstanceUse(number % 900, 1000) for number in range(count)])
    return lambda: scale(settings, [reading], count, History.begin(count, NOW), NOW)


def scene(count: int) -> tuple[Scene, Workload]:
    """A Workload of `count` instances on `count / 10` nodes, none of which has room for the last."""
    made = Scene()
    made.place("AMS", nodes=max(1, count // 10), cpu="10")
    manifest = workload("AMS", replicas=count)
    (deployment,) = made.deploy(manifest).values()
    for number in range(count - 1):
        made.instance(deployment, number, f"ams-{number // 10}")
    made.instance(deployment, count - 1, "", "Unschedulable", ready=False)
    manifest["metadata"]["uid"] = "uid-web"
    return made, decode(Workload, manifest)


def why_a_workload(count: int) -> Decision:
    made, _ = scene(count)
    return lambda: explain_workload(made.world, "default/web")


def why_a_deployment(count: int) -> Decision:
    made, _ = scene(count)
    (key,) = made.world.objects[DEPLOYMENTS.resource]
    return lambda: explain_deployment(made.world, key)


def why_a_pod(count: int) -> Decision:
    made, _ = scene(count)
    made.pod("large", cpu="64")
    return lambda: explain_pod(made.world, "default/large")


def plan_of_a_workload(count: int) -> Decision:
    made, asked = scene(count)
    return lambda: plan_workload(made.world, asked)


DECISIONS: dict[str, tuple[Callable[[int], Decision], Sequence[int]]] = {
    "rollup of cities": (rollup_of_cities, CITIES),
    "rollup of placements": (rollup_of_placements, (10, 100)),
    "rollup of instances": (rollup_of_instances, MANY),
    "placement by city": (placement_by_city, CITIES),
    "placement by selector": (placement_by_selector, MANY),
    "ordered steps": (steps(True), MANY),
    "parallel steps": (steps(False), MANY),
    "children": (children_of_a_workload, CITIES),
    "placement by expression": (placement_by_expression, MANY),
    "waves": (waves_of_cities, MANY),
    "quota": (quota_for_instances, MANY),
    "endpoints": (endpoints_of_a_service, MANY),
    "endpoints at many ports": (endpoints_at_many_ports, (10, 100, 1000)),
    "endpoints as an object": (endpoints_as_an_object, MANY),
    "mirrored endpoints": (mirrored_endpoints, MANY),
    "slices": (endpoints_in_slices, MANY),
    "addresses": (addresses_of_instances, MANY),
    "addresses in many cities": (addresses_in_many_cities, MANY),
    "subnets": (subnets_of_a_network, MANY),
    "scaling": (scaling_by_use, MANY),
    "why of a workload": (why_a_workload, (10, 100, 1000)),
    "why of a deployment": (why_a_deployment, (10, 100, 1000)),
    "why of a pod": (why_a_pod, (10, 100, 1000)),
    "plan": (plan_of_a_workload, (10, 100, 1000)),
}


def measured(decide: Decision) -> float:
    """Return the best of two, since a busy machine only makes things slower.

    Existing objects are excluded from garbage collection: their number depends on earlier tests of the process.
    """
    best = float("inf")
    gc.collect()
    gc.freeze()
    for _ in range(2):
        began = thread_time()
        decide()
        best = min(best, thread_time() - began)
    return best


def is_steep(small: Cost, large: Cost) -> bool:
    expected = large.size * log(large.size) / (small.size * log(small.size))
    return large.seconds > STEEPEST * expected * max(small.seconds, WORTH_COMPARING / 10)


@pytest.mark.parametrize("what", DECISIONS)
def test_a_decision_costs_no_more_than_n_log_n(what: str) -> None:
    make, sizes = DECISIONS[what]
    decisions = {size: make(size) for size in sizes}
    costs = {size: Cost(size, measured(decide)) for size, decide in decisions.items()}
    for _ in range(AGAIN):
        for small, large in pairwise(sizes):
            if is_steep(costs[small], costs[large]):
                costs[large] = min(costs[large], Cost(large, measured(decisions[large])))
    print(f"\n{what:24}", *costs.values())
    steep = [f"{small}, {large}" for small, large in pairwise(costs.values()) if is_steep(small, large)]
    assert not steep
