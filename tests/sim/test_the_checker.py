"""The checker detects violations: each rule gets a history that breaks it, and one that does not."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tarmac.api.compute.names import LABEL_CITY_CODE, LABEL_WORKLOAD_UID
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.sim.checker.convergence import orphans
from tarmac.sim.checker.replay import DEPLOYMENTS, INSTANCES, LEASES, NODES, PODS, QUOTAS, WORKLOADS, Checker
from tarmac.sim.checker.rollouts import LOCATIONS, revision_in
from tarmac.sim.checker.rules import STALE
from tarmac.sim.checker.safety import safety
from tarmac.sim.history import Moment
from tarmac.store.interface import Entry, Event

GROUP = "compute.datumapis.com"


class Telling:
    """Gives a history to a checker, object by object."""

    def __init__(self) -> None:
        self.checker = Checker(safety())
        self._revision = 1
        self._present: dict[tuple[str, str], Entry] = {}

    def says(self, time: float, bucket: str, key: str, obj: JsonObject | None, revision: int = 0) -> Telling:
        """Set the object's state, or delete it."""
        self._revision = revision or self._revision + 1
        old = self._present.get((bucket, key))
        document = obj or json.loads(old.raw if old else b"{}")
        document.setdefault("metadata", {})["resourceVersion"] = str(self._revision)
        document["metadata"].setdefault("uid", key)
        document.setdefault("status", {})
        entry = Entry(key, self._revision, 0, msgspec.json.encode(document))
        self._present[bucket, key] = entry
        kind = "DELETED" if obj is None else "ADDED" if old is None else "MODIFIED"
        self.checker(Moment(time, Event(kind, bucket, entry, old)))
        return self

    @property
    def broken(self) -> list[str]:
        return [violation.rule for violation in self.checker.violations]


def deployment(replicas: int, **spec: Any) -> JsonObject:
    return {"metadata": {"uid": "wd"}, "spec": {"scaleSettings": {"minReplicas": replicas}, **spec}}


def instance(index: int = 0, *, address: str = "", gates: tuple[str, ...] = (), **metadata: Any) -> JsonObject:
    labels = {f"{GROUP}/workload-deployment-uid": "wd", f"{GROUP}/instance-index": str(index)}
    annotations = {}
    if address:
        annotations = {ANNOTATION_INTERFACES: json.dumps([{"name": "eth0", "network": "ns/n", "addresses": [address]}])}
    return {
        "metadata": {"labels": labels, "annotations": annotations, **metadata},
        "spec": {"controller": {"templateHash": "h", "schedulingGates": [{"name": gate} for gate in gates]}},
    }


def pod(node: str = "", cpu: str = "1", **metadata: Any) -> JsonObject:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": metadata, "spec": {"containers": [container], **({"nodeName": node} if node else {})}}


def node(ready: str = "True") -> JsonObject:
    return {"status": {"allocatable": {"cpu": "2", "pods": "110"}, "conditions": [{"type": "Ready", "status": ready}]}}


def machine(restarts: int, ended: str = "", *, waits: bool = False) -> JsonObject:
    """A virtual machine after so many restarts, with the time of its last end."""
    made = pod("dfw-0")
    made["spec"]["runtimeClassName"] = "vm"
    last = {"lastState": {"terminated": {"reason": "GuestPanicked", "finishedAt": ended}}} if ended else {}
    state = {"waiting": {}} if waits else {"running": {}}
    made["status"] = {"containerStatuses": [{"name": "machine", "restartCount": restarts, "state": state, **last}]}
    return made


def test_a_machine_that_starts_again_though_nothing_ended() -> None:
    story = Telling().says(0, PODS, "ns/vm", machine(0)).says(1, PODS, "ns/vm", machine(0, "12:01", waits=True))
    assert story.says(2, PODS, "ns/vm", machine(1, "12:01")).says(3, PODS, "ns/vm", machine(2, "12:03")).broken == []
    assert story.says(4, PODS, "ns/vm", machine(3, "12:03")).broken == ["machine-restarts"]
    assert Telling().says(0, PODS, "ns/vm", machine(0)).says(1, PODS, "ns/vm", machine(1)).broken == [
        "machine-restarts"
    ]


def test_two_instances_of_one_ordinal() -> None:
    story = Telling().says(0, DEPLOYMENTS, "ns/d", deployment(5)).says(1, INSTANCES, "ns/d-0", instance(0))
    assert story.says(2, INSTANCES, "ns/d-1", instance(1)).broken == []
    assert story.says(3, INSTANCES, "ns/other", instance(1)).broken == ["ordinals-unique"]


def test_an_ordinal_may_come_again_after_it_has_gone() -> None:
    story = Telling().says(0, DEPLOYMENTS, "ns/d", deployment(5)).says(1, INSTANCES, "ns/d-0", instance(0))
    assert story.says(2, INSTANCES, "ns/d-0", None).says(3, INSTANCES, "ns/d-0", instance(0)).broken == []


def test_two_instances_with_one_address() -> None:
    story = Telling().says(0, DEPLOYMENTS, "ns/d", deployment(5))
    story.says(1, INSTANCES, "ns/d-0", instance(0, address="10.0.0.2/20"))
    story.says(1, PODS, "ns/d-0", instance(0, address="10.0.0.2/20") | {"spec": {"containers": []}})
    assert story.broken == []
    assert story.says(2, INSTANCES, "ns/d-1", instance(1, address="10.0.0.2/20")).broken == ["addresses-unique"]


def test_an_address_is_free_only_when_its_last_holder_is_gone() -> None:
    story = Telling().says(0, DEPLOYMENTS, "ns/d", deployment(5))
    story.says(1, INSTANCES, "ns/d-0", instance(0, address="10.0.0.2/20"))
    story.says(1, PODS, "ns/d-0", instance(0, address="10.0.0.2/20") | {"spec": {"containers": []}})
    story.says(2, INSTANCES, "ns/d-0", None)
    assert story.says(3, INSTANCES, "ns/d-1", instance(1, address="10.0.0.2/20")).broken == ["addresses-unique"]


def test_one_instance_more_than_wanted() -> None:
    story = Telling().says(0, DEPLOYMENTS, "ns/d", deployment(1)).says(1, INSTANCES, "ns/d-0", instance(0))
    assert story.says(2, INSTANCES, "ns/d-1", instance(1)).broken == ["never-too-many"]


def test_a_rollout_may_have_its_surge() -> None:
    story = Telling().says(0, DEPLOYMENTS, "ns/d", deployment(2, rollout={"maxSurge": "50%"}))
    for index in range(3):
        story.says(1, INSTANCES, f"ns/d-{index}", instance(index))
    assert story.broken == []
    assert story.says(2, INSTANCES, "ns/d-3", instance(3)).broken == ["never-too-many"]


def test_a_number_just_lowered_may_still_be_used_for_a_while() -> None:
    for wait, broken in ((STALE - 1, []), (STALE + 1, ["never-too-many"])):
        story = Telling().says(0, DEPLOYMENTS, "ns/d", deployment(2)).says(1, INSTANCES, "ns/d-0", instance(0))
        story.says(2, DEPLOYMENTS, "ns/d", deployment(1))
        assert story.says(2 + wait, INSTANCES, "ns/d-1", instance(1)).broken == broken


def test_a_pod_beyond_the_quota() -> None:
    quota = {"spec": {"hard": {"pods": "1", "requests.cpu": "10"}}}
    story = Telling().says(0, QUOTAS, "ns/limit", quota).says(1, PODS, "ns/a", pod())
    assert story.says(2, PODS, "other/b", pod()).broken == []
    assert story.says(3, PODS, "ns/c", pod()).broken == ["quota-holds"]


def test_an_instance_let_through_beyond_the_quota() -> None:
    story = Telling().says(0, QUOTAS, "ns/limit", {"spec": {"hard": {f"count/instances.{GROUP}": "1"}}})
    story.says(0, DEPLOYMENTS, "ns/d", deployment(5))
    story.says(1, INSTANCES, "ns/d-0", instance(0)).says(1, INSTANCES, "ns/d-1", instance(1, gates=("Quota",)))
    assert story.broken == []
    assert story.says(99, INSTANCES, "ns/d-1", instance(1)).broken == ["quota-holds"]


def test_a_quota_that_was_just_set_may_not_have_been_heard_of() -> None:
    story = Telling().says(0, DEPLOYMENTS, "ns/d", deployment(5)).says(1, INSTANCES, "ns/d-0", instance(0))
    story.says(1, INSTANCES, "ns/d-1", instance(1, gates=("Quota",)))
    story.says(10, QUOTAS, "ns/limit", {"spec": {"hard": {f"count/instances.{GROUP}": "1"}}})
    assert story.says(30, INSTANCES, "ns/d-1", instance(1)).broken == []


def test_revisions_and_generations_that_go_back() -> None:
    first: JsonObject = {"metadata": {"generation": 3}, "status": {"observedGeneration": 2}}
    story = Telling().says(0, DEPLOYMENTS, "ns/d", deployment(1) | first)
    assert story.broken == []
    back: JsonObject = {"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}
    assert story.says(1, DEPLOYMENTS, "ns/d", deployment(1) | back).broken == ["revisions-monotone"] * 2
    assert story.says(2, PODS, "ns/p", pod(), revision=2).broken == ["revisions-monotone"] * 3


def test_observing_what_is_yet_to_come() -> None:
    early: JsonObject = {"metadata": {"generation": 1}, "status": {"observedGeneration": 2}}
    assert Telling().says(0, DEPLOYMENTS, "ns/d", deployment(1) | early).broken == ["revisions-monotone"]


def test_a_pod_that_changes_its_node() -> None:
    story = Telling().says(0, PODS, "ns/p", pod()).says(1, PODS, "ns/p", pod("a"))
    assert story.broken == []
    assert story.says(2, PODS, "ns/p", pod("b")).broken == ["bound-once"]


def test_a_node_with_more_than_it_has() -> None:
    story = Telling().says(0, NODES, "a", node()).says(0, PODS, "ns/p", pod(cpu="1500m")).says(0, PODS, "ns/q", pod())
    assert story.says(1, PODS, "ns/p", pod("a", cpu="1500m")).broken == []
    assert story.says(2, PODS, "ns/q", pod("a")).broken == ["bound-once"]


SLOW = {"blockio.resources.alpha.kubernetes.io/default": "slow"}


def test_a_class_with_more_than_its_places() -> None:
    offering = node()
    listed = [{"name": "slow", "capacity": 1}]
    offering["status"]["containerClassResources"] = [{"name": "blockio", "classes": listed}]
    story = Telling().says(0, NODES, "a", offering)
    for name in ("p", "q"):
        story.says(0, PODS, f"ns/{name}", pod(annotations=SLOW, cpu="100m"))
    assert story.says(1, PODS, "ns/p", pod("a", annotations=SLOW, cpu="100m")).broken == []
    assert story.says(2, PODS, "ns/q", pod("a", annotations=SLOW, cpu="100m")).broken == ["bound-once"]


def test_more_processors_to_themselves_than_a_node_gives_away() -> None:
    giving = node()
    giving["status"] |= {"capacity": {"cpu": "8", "cpu exclusive": "1"}, "allocatable": {"cpu": "8", "pods": "9"}}
    own, bound = pod(cpu="2"), pod("a", cpu="2")
    for each in (own, bound):
        amounts = {"cpu": "2", "memory": "1Gi"}
        each["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    giving["status"]["allocatable"]["memory"] = "8Gi"
    story = Telling().says(0, NODES, "a", giving).says(0, PODS, "ns/p", own)
    assert story.says(1, PODS, "ns/p", bound).broken == ["bound-once"]


def test_a_node_that_refuses_what_the_scheduler_gave_it() -> None:
    refused = {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough"}
    story = Telling().says(0, NODES, "a", node())
    for name, bound in (("ours", pod()), ("by-hand", pod("a"))):
        story.says(0, PODS, f"ns/{name}", bound).says(1, PODS, f"ns/{name}", pod("a"))
    assert story.says(2, PODS, "ns/by-hand", pod("a") | {"status": refused}).broken == []
    assert story.says(3, PODS, "ns/ours", pod("a") | {"status": refused}).broken == ["never-refused"]


def test_a_class_beyond_its_quota() -> None:
    listed = [{"name": "blockio", "classes": [{"name": "slow", "capacity": 1}]}]
    story = Telling().says(0, QUOTAS, "ns/limit", {"spec": {"containerClassResources": listed}})
    assert story.says(1, PODS, "ns/a", pod(annotations=SLOW)).says(2, PODS, "ns/b", pod()).broken == []
    assert story.says(3, PODS, "ns/c", pod(annotations=SLOW)).broken == ["quota-holds"]
    fast = dict.fromkeys(SLOW, "fast")
    assert story.says(4, PODS, "ns/d", pod(annotations=fast)).broken == ["quota-holds", "quota-holds"]
    assert story.says(5, PODS, "ns/e", pod()).broken == ["quota-holds", "quota-holds"], "it requests no class"


def test_a_node_called_silent_before_its_lease_has_run_out() -> None:
    lease: JsonObject = {"spec": {"leaseDurationSeconds": 40, "renewTime": "t1"}}
    for age, broken in ((39.0, ["leases-trusted"]), (40.5, [])):
        story = Telling().says(0, NODES, "a", node()).says(10, LEASES, "kube-node-lease/a", lease)
        assert story.says(10 + age, NODES, "a", node("Unknown")).broken == broken


def test_an_orphan() -> None:
    owner = [{"kind": "Instance", "name": "d-0", "uid": "gone"}]
    story = Telling().says(0, PODS, "ns/p", pod(ownerReferences=owner))
    assert [*orphans(story.checker.mirror)] == ["core/pods ns/p has outlived its owner Instance d-0"]


def template(image: str) -> JsonObject:
    runtime = {"resources": {"instanceType": "datumcloud/d1-standard-2"}}
    return {"metadata": {"labels": {"image": image}}, "spec": {"runtime": runtime, "networkInterfaces": []}}


def in_waves(image: str, **status: Any) -> JsonObject:
    placement = {"name": "all", "cityCodes": list("ABCD"), "scaleSettings": {"minReplicas": 1}}
    spec = {"template": template(image), "placements": [placement]}
    return {"metadata": {"uid": "w"}, "spec": spec, "status": status}


def rolled(city: str, image: str, *, ready: bool = True) -> JsonObject:
    labels = {LABEL_WORKLOAD_UID: "w", LABEL_CITY_CODE: city}
    conditions = [{"type": "Ready", "status": str(ready)}]
    return deployment(1, template=template(image)) | {
        "metadata": {"uid": city, "labels": labels, "generation": 1},
        "status": {"observedGeneration": 1, "conditions": conditions},
    }


def seven_days() -> Telling:
    """Four cities that have run the first release for a week."""
    story = Telling()
    for city in "ABCD":
        location = {"spec": {"topology": {"topology.datum.net/city-code": city}}}
        story.says(0, LOCATIONS, city, location | {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
        story.says(0, DEPLOYMENTS, f"ns/{city}", rolled(city, "1"))
    return story.says(1000, WORKLOADS, "ns/w", in_waves("2"))


def test_a_second_city_before_the_first_was_complete() -> None:
    story = seven_days().says(1001, DEPLOYMENTS, "ns/A", rolled("A", "2", ready=False))
    assert story.broken == []
    assert story.says(1002, DEPLOYMENTS, "ns/B", rolled("B", "2", ready=False)).broken == ["waves-hold"]


def test_the_second_wave_has_two_cities_and_not_three() -> None:
    story = (
        seven_days().says(1001, DEPLOYMENTS, "ns/A", rolled("A", "2")).says(1002, DEPLOYMENTS, "ns/A", rolled("A", "2"))
    )
    for city in "BC":
        story.says(1003, DEPLOYMENTS, f"ns/{city}", rolled(city, "2", ready=False))
    assert story.broken == []
    assert story.says(1004, DEPLOYMENTS, "ns/D", rolled("D", "2", ready=False)).broken == ["waves-hold"]


def test_a_failed_revision_goes_no_further() -> None:
    story = seven_days().says(1001, DEPLOYMENTS, "ns/A", rolled("A", "2", ready=False))
    story.says(1002, DEPLOYMENTS, "ns/A", rolled("A", "1"))
    failed = {"revision": revision_in(in_waves("2")), "rollout": {"failure": {"city": "A"}}}
    story.says(1003, WORKLOADS, "ns/w", in_waves("2", **failed))
    assert story.says(1010, DEPLOYMENTS, "ns/B", rolled("B", "2", ready=False)).broken == [], "it was in progress"
    assert story.says(1100, DEPLOYMENTS, "ns/C", rolled("C", "2", ready=False)).broken == ["waves-hold", "waves-hold"]
