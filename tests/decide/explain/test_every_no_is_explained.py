"""Explanations: one sentence, its reasons by city and node, and the smallest change that would help."""

from __future__ import annotations

import pytest

from tarmac.api.compute.explanations import Explanation, ExplanationLine
from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.api.declare import decode
from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339
from tarmac.decide.explain import EXPLAINERS
from tarmac.decide.explain.deployments import autoscaling_lines
from tarmac.decide.snapshot.snapshot import DEPLOYMENTS, INSTANCE_TYPES, INSTANCES, NETWORKS, PODS, WORKLOADS

from .world import NOW, Scene, condition_of, machines, workload

UNREACHABLE: JsonObject = {
    "key": "node.kubernetes.io/unreachable",
    "effect": "NoExecute",
    "timeAdded": rfc3339(NOW - 20),
}


def why(scene: Scene, resource: str, name: str) -> Explanation:
    found = EXPLAINERS[resource](scene.world, f"default/{name}")
    assert found is not None
    return found


def verdicts(found: Explanation) -> list[tuple[str, str, str, str]]:
    return [(line.city, line.node, line.answer, line.reason) for line in found.verdicts]


def test_missing_objects_have_no_explanation() -> None:
    assert all(explain(Scene().world, "default/nobody") is None for explain in EXPLAINERS.values())


def test_a_pod_that_no_node_takes_says_what_each_node_lacks_and_the_least_that_would_do() -> None:
    scene = Scene()
    scene.place("LHR", nodes=2, cpu="4")
    scene.pod("big", "6", nodeSelector={"topology.datum.net/location": "lhr"})
    found = why(scene, PODS.resource, "big")
    assert found.sentence == "Pod default/big has no node: 0/2 nodes at lhr: 2 Insufficient cpu."
    assert verdicts(found) == [
        ("LHR", "", "No", "InsufficientCapacity"),
        ("LHR", "lhr-0", "No", "InsufficientCapacity"),
        ("LHR", "lhr-1", "No", "InsufficientCapacity"),
    ]
    assert found.change == "Ask for at most 4 CPUs, or free 2 CPUs on lhr-0."


def test_the_change_that_is_named_makes_it_a_yes() -> None:
    scene = Scene()
    scene.place("LHR", nodes=2, cpu="4")
    scene.pod("big", "6")
    assert why(scene, PODS.resource, "big").change.startswith("Ask for at most 4 CPUs")
    scene.pod("big", "4")
    found = why(scene, PODS.resource, "big")
    assert [line.answer for line in found.verdicts] == ["Yes"]
    assert found.change == ""


def test_only_pods_on_the_nodes_in_question_count() -> None:
    scene = Scene()
    scene.place("LHR", nodes=1, cpu="4")
    scene.place("DFW", nodes=1, cpu="4")
    scene.pod("elsewhere", "4", "dfw-0")
    scene.pod("small", "4", nodeSelector={"topology.datum.net/location": "lhr"})
    assert why(scene, PODS.resource, "small").verdicts[0].answer == "Yes"
    scene.pod("here", "1", "lhr-0")
    assert why(scene, PODS.resource, "small").verdicts[0].message == "0/1 nodes at lhr: 1 Insufficient cpu."


def test_a_pod_that_has_ended_holds_nothing() -> None:
    scene = Scene()
    scene.place("LHR", nodes=1, cpu="4")
    scene.pod("done", "4", "lhr-0")
    body = PODS.get(scene.world, "default/done") or {}
    scene.put(PODS.resource, {**body, "status": {"phase": "Succeeded"}})
    scene.pod("next", "4")
    assert why(scene, PODS.resource, "next").verdicts[0].answer == "Yes"


def test_many_nodes_are_told_by_kind() -> None:
    scene = Scene()
    scene.place("LHR", nodes=30, cpu="1")
    scene.pod("big", "2")
    found = why(scene, PODS.resource, "big")
    assert [(line.node, line.reason) for line in found.verdicts] == [
        ("", "InsufficientCapacity"),
        ("30 nodes", "InsufficientCapacity"),
    ]


def test_a_pod_whose_disk_is_elsewhere_says_where() -> None:
    scene = Scene()
    scene.place("LHR", nodes=2, cpu="4")
    scene.pod("filler", "4", "lhr-0")
    scene.claim("data", "lhr-0")
    scene.pod("db", "1", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    reasons = {(line.node, line.reason) for line in why(scene, PODS.resource, "db").verdicts}
    assert {("lhr-0", "InsufficientCapacity"), ("lhr-1", "DiskElsewhere")} <= reasons


def test_a_pod_without_its_claim_says_so() -> None:
    scene = Scene()
    scene.place("LHR")
    scene.pod("db", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    assert why(scene, PODS.resource, "db").change == "Create PersistentVolumeClaim data."


def test_a_gated_pod_waits() -> None:
    scene = Scene()
    scene.place("LHR")
    scene.pod("early", schedulingGates=[{"name": "example.com/later"}])
    assert verdicts(why(scene, PODS.resource, "early")) == [("", "", "Wait", "SchedulingGatesPresent")]


def test_a_container_that_cannot_start_shows_what_the_node_says() -> None:
    scene = Scene()
    scene.place("LHR")
    scene.pod("bad", node="lhr-0")
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "main", "state": waiting}]}
    scene.put(PODS.resource, {**(PODS.get(scene.world, "default/bad") or {}), "status": status})
    found = why(scene, PODS.resource, "bad")
    assert found.sentence.startswith("Pod default/bad is on lhr-0 and is not ready: main: no such image")
    assert "image" in found.change


@pytest.mark.parametrize(
    ("taints", "outlook"),
    [
        ([], "Node lhr-0 is not ready, and has not been given up."),
        ([UNREACHABLE], "Node lhr-0 is not ready; the pod is replaced in 40s unless it comes back."),
        ([UNREACHABLE, {"key": "example.com/broken", "effect": "NoExecute"}], "Node lhr-0 is not ready; the pod is "),
    ],
)
def test_a_pod_on_a_lost_node_says_when_it_is_replaced(taints: list[JsonObject], outlook: str) -> None:
    scene = Scene()
    scene.place("LHR", nodes=0)
    scene.node("lhr-0", "lhr", taints=taints)
    patient = {"key": UNREACHABLE["key"], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    scene.pod("web", node="lhr-0", tolerations=[patient])
    silent = condition_of("Ready", False, "NodeNotReady", "Node lhr-0 is not ready.")
    status = {"phase": "Running", "podIP": "10.0.0.2", "conditions": [silent]}
    running = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    scene.put(PODS.resource, {**(PODS.get(scene.world, "default/web") or {}), "status": status | running})
    last = why(scene, PODS.resource, "web").verdicts[-1]
    assert (last.answer, last.reason) == ("Wait", "NodeLost")
    assert last.message.startswith(outlook)


def test_an_instance_that_waits_for_quota_says_which_and_how_much() -> None:
    scene = Scene()
    scene.place("LHR")
    deployment = scene.deploy(workload("LHR", replicas=2))["LHR"]
    scene.quota(cpu="1500m")
    scene.instance(deployment, 0, "lhr-0")
    made = scene.instance(deployment, 1, reason="QuotaExhausted", ready=False, gates=("Quota",))
    found = why(scene, INSTANCES.resource, made.metadata.name)
    message = "quota limits is exhausted in LHR: cpu 1 wanted, 1 of 1500m used."
    assert found.sentence == f"Instance default/{made.metadata.name} is not ready: {message}"
    assert verdicts(found) == [("LHR", "", "No", "QuotaExhausted")]
    assert found.change == "Raise cpu of ResourceQuota limits to 2, or scale something else down."
    scene.quota(cpu="2")
    assert verdicts(why(scene, INSTANCES.resource, made.metadata.name)) == [
        ("LHR", "", "Wait", "SchedulingGatesPresent")
    ]


def test_a_city_that_waits_for_quota_names_the_limit_that_lets_all_of_it_go_on() -> None:
    scene = Scene()
    scene.place("LHR")
    deployment = scene.deploy(workload("LHR", replicas=4))["LHR"]
    scene.quota(pods="2", cpu="10")
    for ordinal in (0, 1):
        scene.instance(deployment, ordinal, "lhr-0")
    for ordinal in (2, 3):
        scene.instance(deployment, ordinal, reason="QuotaExhausted", ready=False, gates=("Quota",))
    found = why(scene, DEPLOYMENTS.resource, deployment.metadata.name)
    assert "2 of 4 instances: quota limits is exhausted in LHR" in found.sentence
    assert found.change == "Raise pods of ResourceQuota limits to 4, or scale something else down."


def test_a_limit_that_is_named_has_room_for_all_cities_and_for_what_an_ordered_one_has_yet_to_make() -> None:
    scene = Scene()
    for city in ("DFW", "LHR"):
        scene.place(city)
    deployments = scene.deploy(workload("DFW", "LHR", replicas=3, policy="OrderedReady"))
    scene.quota(pods="2", cpu="5")
    for deployment in deployments.values():
        scene.instance(deployment, 0, f"{deployment.spec.city_code.lower()}-0")
        scene.instance(deployment, 1, reason="QuotaExhausted", ready=False, gates=("Quota",))
    raised = "Raise pods of ResourceQuota limits to {} and cpu of ResourceQuota limits to {}, or scale"
    assert why(scene, WORKLOADS.resource, "web").change.startswith(raised.format(6, 6))
    city = why(scene, DEPLOYMENTS.resource, deployments["LHR"].metadata.name)
    assert city.change == "Raise pods of ResourceQuota limits to 4, or scale something else down.", "only this city"


@pytest.mark.parametrize(
    ("type", "holds", "reason", "answer"),
    [
        ("AutoscalingReady", False, "MetricsUnavailable", "No"),
        ("AutoscalingReady", False, "TooFewMetrics", "Wait"),
        ("AutoscalingLimited", True, "TooManyReplicas", "No"),
        ("AutoscalingLimited", True, "ScaleRateLimited", "Wait"),
    ],
)
def test_an_autoscaler_that_cannot_do_its_work_is_heard(type: str, holds: bool, reason: str, answer: str) -> None:
    scene = Scene()
    scene.place("LHR")
    deployment = scene.deploy(workload("LHR", replicas=1))["LHR"]
    scene.instance(deployment, 0, "lhr-0")
    scene.say(deployment, condition_of(type, holds, reason, "The metrics ask for 17 instances."))
    for found in (why(scene, DEPLOYMENTS.resource, deployment.metadata.name), why(scene, WORKLOADS.resource, "web")):
        assert verdicts(found) == [("LHR", "", "Yes", "Complete"), ("LHR", "", answer, reason)]
        assert found.sentence.endswith(": The metrics ask for 17 instances.")
        assert bool(found.change) == (answer == "No")


def test_an_autoscaler_that_is_content_says_nothing() -> None:
    scene = Scene()
    scene.place("LHR")
    deployment = scene.deploy(workload("LHR", replicas=1))["LHR"]
    scene.instance(deployment, 0, "lhr-0")
    scene.say(deployment, condition_of("AutoscalingLimited", True, "TooFewReplicas"))
    assert verdicts(why(scene, WORKLOADS.resource, "web")) == [("LHR", "", "Yes", "Complete")]


@pytest.mark.parametrize(
    ("asked", "reason", "sentence", "change"),
    [
        (0, "TooFewReplicas", "It was scaled to 0; minReplicas is 1, so 1 run.", "Lower minReplicas"),
        (9, "TooManyReplicas", "It was scaled to 9; maxReplicas is 3, so 3 run.", "Raise maxReplicas"),
        (2, "", "", ""),
    ],
)
def test_a_number_beyond_the_bounds_is_explained(asked: int, reason: str, sentence: str, change: str) -> None:
    deployment = decode(
        WorkloadDeployment,
        {
            "metadata": {"name": "d"},
            "spec": {
                "workloadRef": {"name": "web", "uid": "u"},
                "placementName": "us",
                "cityCode": "LHR",
                "replicas": asked,
                "scaleSettings": {"minReplicas": 1, "maxReplicas": 3},
                "template": workload("LHR")["spec"]["template"],
            },
        },
    )
    lines = list(autoscaling_lines(deployment))
    assert [(line.reason, line.message) for line in lines] == ([(reason, sentence)] if reason else [])
    assert all(line.change.startswith(f"{change} of the placement us to ") for line in lines)


def test_an_instance_whose_volume_has_no_source_does_not_go_on_by_itself() -> None:
    scene = Scene()
    scene.place("LHR")
    deployment = scene.deploy(workload("LHR", replicas=1))["LHR"]
    scene.instance(deployment, 0, "lhr-0", "SourceNotFound", "ConfigMap web not found.", ready=False)
    found = why(scene, WORKLOADS.resource, "web")
    assert found.sentence.endswith("in LHR: 1 of 1 instances: ConfigMap web not found.")
    assert found.change == "Create the object that the message names."


def test_a_ready_instance_says_so() -> None:
    scene = Scene()
    scene.place("LHR")
    made = scene.instance(scene.deploy(workload("LHR", replicas=1))["LHR"], 0, "lhr-0", message="Instance is ready")
    found = why(scene, INSTANCES.resource, made.metadata.name)
    assert found.sentence == f"Instance default/{made.metadata.name} is ready."
    assert found.verdicts == [ExplanationLine("Yes", "Running", "Instance is ready.", "ready", "LHR", "lhr-0")]


def test_a_deployment_counts_the_instances_of_each_reason() -> None:
    scene = Scene()
    scene.place("LHR", nodes=1, cpu="1")
    deployment = scene.deploy(workload("LHR", replicas=3))["LHR"]
    scene.instance(deployment, 0, "lhr-0")
    for ordinal in (1, 2):
        scene.instance(deployment, ordinal, reason="Unschedulable", ready=False)
    found = why(scene, DEPLOYMENTS.resource, deployment.metadata.name)
    assert found.sentence.endswith(
        "has 1 of 3 instances ready in LHR: 2 of 3 instances: 0/1 nodes at lhr: 1 Insufficient cpu."
    )


def test_an_ordered_deployment_says_how_many_wait_behind_the_first() -> None:
    scene = Scene()
    scene.place("LHR", nodes=1, cpu="1")
    deployment = scene.deploy(workload("LHR", replicas=4, policy="OrderedReady"))["LHR"]
    scene.instance(deployment, 0, "lhr-0")
    stuck = scene.instance(deployment, 1, reason="Unschedulable", ready=False)
    last = why(scene, DEPLOYMENTS.resource, deployment.metadata.name).verdicts[-1]
    assert (last.answer, last.message) == ("Wait", f"2 more to be made when {stuck.metadata.name} is ready.")


def test_a_deployment_without_a_location_says_what_is_wrong_with_each() -> None:
    scene = Scene()
    scene.place("LHR", ready=False)
    deployment = scene.deploy(workload("LHR"), located=False)["LHR"]
    found = why(scene, DEPLOYMENTS.resource, deployment.metadata.name)
    assert [line.reason for line in found.verdicts] == ["NoCandidateLocations", "LocationNotReady"]
    assert found.change == "Bring a node of lhr back to ready."


def test_a_workload_shows_every_city_and_the_worst_of_them_in_the_sentence() -> None:
    scene = Scene()
    scene.place("DFW", nodes=1, cpu="4")
    scene.place("LHR", nodes=1, cpu="1")
    deployments = scene.deploy(workload("DFW", "LHR", replicas=2))
    for ordinal in (0, 1):
        scene.instance(deployments["DFW"], ordinal, "dfw-0")
    scene.instance(deployments["LHR"], 0, "lhr-0")
    scene.instance(deployments["LHR"], 1, reason="Unschedulable", ready=False)
    found = why(scene, WORKLOADS.resource, "web")
    assert "; in LHR: 1 of 2 instances: 0/1 nodes at lhr" in found.sentence
    assert verdicts(found) == [
        ("DFW", "", "Yes", "Complete"),
        ("LHR", "", "No", "InsufficientCapacity"),
        ("LHR", "lhr-0", "No", "InsufficientCapacity"),
    ]


def test_a_fault_in_several_cities_names_the_change_for_each() -> None:
    """A change that helps all of them is named once."""
    scene = Scene()
    for city in ("DFW", "LHR"):
        scene.place(city, nodes=1, cpu="1")
    for deployment in scene.deploy(workload("DFW", "LHR", replicas=1, cpu="2")).values():
        scene.instance(deployment, 0, reason="Unschedulable", ready=False)
    assert why(scene, WORKLOADS.resource, "web").change == (
        "Ask for at most 1 CPU, or free 1 CPU on dfw-0. Ask for at most 1 CPU, or free 1 CPU on lhr-0."
    )
    scene.deploy(workload("DFW", "LHR", paused=True, name="held"))
    assert why(scene, WORKLOADS.resource, "held").change == "Set paused to false."


def test_a_workload_whose_network_does_not_exist_says_so_first() -> None:
    scene = Scene()
    scene.place("DFW")
    scene.deploy(workload("DFW"))
    scene.remove(NETWORKS.resource, "default/default")
    found = why(scene, WORKLOADS.resource, "web")
    assert "Unable to find networks: default/default." in found.sentence
    assert found.change == "Create Network default/default."


def test_a_network_that_is_being_deleted_is_told_to_those_who_use_it() -> None:
    """Even while all of it runs: the Network cannot be created again before they leave it."""
    scene = Scene()
    scene.place("DFW")
    deployment = scene.deploy(workload("DFW", replicas=1))["DFW"]
    scene.instance(deployment, 0, "dfw-0")
    network = {"metadata": {"name": "default", "namespace": "default", "deletionTimestamp": rfc3339(NOW)}}
    scene.put(NETWORKS.resource, {**network, "spec": {"ipam": {"mode": "Auto"}}})
    for found in (why(scene, WORKLOADS.resource, "web"), why(scene, DEPLOYMENTS.resource, deployment.metadata.name)):
        assert [(line.answer, line.reason) for line in found.verdicts] == [("No", "NetworkInUse"), ("Yes", "Complete")]
        assert found.change.startswith("Attach to another Network")


def test_a_city_without_a_location_names_what_to_create() -> None:
    scene = Scene()
    scene.place("DFW")
    scene.deploy(workload("DFW", "NRT"), located=False)
    found = why(scene, WORKLOADS.resource, "web")
    assert ("NRT", "", "No", "NoCandidateLocations") in verdicts(found)
    assert found.change == "Create a Location with city code NRT."


def test_a_complete_workload_needs_no_change() -> None:
    scene = Scene()
    scene.place("DFW")
    scene.instance(scene.deploy(workload("DFW", replicas=1))["DFW"], 0, "dfw-0")
    found = why(scene, WORKLOADS.resource, "web")
    assert [line.answer for line in found.verdicts] == ["Yes"]
    assert found.change == ""


def test_a_paused_workload_says_how_to_go_on() -> None:
    scene = Scene()
    scene.place("DFW")
    scene.deploy(workload("DFW", paused=True))
    assert why(scene, WORKLOADS.resource, "web").change == "Set paused to false."


def test_a_workload_of_a_type_that_is_going_says_what_to_use_instead() -> None:
    scene = Scene()
    scene.place("DFW")
    scene.instance(scene.deploy(workload("DFW", replicas=1))["DFW"], 0, "dfw-0")
    lifecycle = {"phase": "Deprecated", "replacementInstanceType": "datumcloud-d2-custom"}
    scene.put(INSTANCE_TYPES.resource, {"metadata": {"name": "datumcloud-d1-custom"}, "spec": {"lifecycle": lifecycle}})
    found = why(scene, WORKLOADS.resource, "web")
    assert [(line.answer, line.reason) for line in found.verdicts] == [
        ("No", "InstanceTypeDeprecated"),
        ("Yes", "Complete"),
    ]
    assert found.change == "Use datumcloud-d2-custom."


def test_a_machine_whose_image_cannot_be_had_says_what_to_set() -> None:
    scene = Scene()
    scene.place("DFW")
    obj = workload("DFW", replicas=1)
    spec = obj["spec"]["template"]["spec"]
    spec["runtime"] = {**spec["runtime"], "virtualMachine": {"volumeAttachments": [{"name": "boot"}]}}
    del spec["runtime"]["sandbox"]
    disk = {"template": {"spec": {"populator": {"image": {"name": "tarmac/tiny"}}}}}
    spec["volumes"] = [{"name": "boot", "disk": disk}]
    made = scene.instance(scene.deploy(obj)["DFW"], 0, reason="ImageUnavailable", ready=False)
    scene.remove(PODS.resource, f"default/{made.metadata.name}")
    found = why(scene, INSTANCES.resource, made.metadata.name)
    assert [(line.reason, line.rule) for line in found.verdicts] == [("ImageUnavailable", "image")]
    assert found.change == "Set spec.source and spec.checksum of MachineImage tarmac-tiny."
    above = why(scene, WORKLOADS.resource, "web")
    assert above.change == found.change


def machine_of(scene: Scene, state: JsonObject, ready: tuple[str, str] = ("", "")) -> None:
    """Add a machine `vm` with this container state; `ready` are reason and message of its Pod's condition Ready."""
    scene.place("DFW")
    scene.pod("vm", node="dfw-0")
    pod = PODS.get(scene.world, "default/vm")
    assert pod is not None
    pod["spec"] |= {"runtimeClassName": "vm", "containers": [{"name": "machine", "image": "tarmac/tiny"}]}
    conditions = [condition_of("PodReadyToStartContainers", True, "")]
    conditions.append({"type": "Ready", "status": "False", "reason": ready[0], "message": ready[1]})
    statuses = [{"name": "machine", **state}]
    scene.put(PODS.resource, {**pod, "status": {"conditions": conditions, "containerStatuses": statuses}})


def ended(reason: str, code: int = 1, message: str = "") -> JsonObject:
    """Return the state of a container that has ended and waits for its restart."""
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    return {"state": waiting, "lastState": {"terminated": {"exitCode": code, "reason": reason, "message": message}}}


def waits(reason: str, message: str) -> JsonObject:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


RUNS: JsonObject = {"state": {"running": {}}}
MACHINES = {
    "GuestPanicked": (ended("GuestPanicked", 1, "Kernel panic - not syncing: VFS\n"), "", "image or kernel"),
    "MachineFailed": (ended("MachineFailed", 255, "qemu: corrupt"), "", "journal of the node"),
    "InstanceCrashing": (ended("Completed", 0), "", "kubectl logs --previous -n default vm"),
    "OutOfMemory": (ended("OOMKilled", 137), "", "overhead of RuntimeClass vm"),
    "ImageUnavailable": (waits("ErrImagePull", "404"), "", "spec.source of MachineImage tarmac-tiny"),
    "ImageRefused": (waits("ImageRefused", "a backing file"), "", "MachineImage tarmac-tiny"),
    "ConfigurationError": (waits("CreateContainerError", "too long"), "", "virtualMachine"),
    "MachinePaused": (RUNS, "paused by ada", "`tarmac machine resume -n default vm`"),
    "DiskFull": (RUNS, "no room", "goes on by itself"),
}


@pytest.mark.parametrize("reason", MACHINES)
def test_faults_of_a_machine_name_its_rule_and_its_change(reason: str) -> None:
    scene, (state, message, change) = Scene(), MACHINES[reason]
    machine_of(scene, state, (reason, message))
    found = why(scene, PODS.resource, "vm")
    last = found.verdicts[-1]
    assert (last.answer, last.reason, last.rule) == ("No", reason, "machine")
    assert change in found.change


def test_a_machine_that_ended_shows_its_last_words() -> None:
    for reason, told in (
        ("GuestPanicked", "machine panicked; last lines: Kernel panic - not syncing: VFS."),
        ("MachineFailed", "machine broke off (exit code 255); last lines: qemu: corrupt."),
    ):
        scene = Scene()
        machine_of(scene, MACHINES[reason][0])
        assert why(scene, PODS.resource, "vm").sentence.endswith(told)


def test_a_panic_is_shown_with_its_reason_however_long_the_trace_after_it() -> None:
    trace = "\n".join(f"[    1.{number}] do_something+0x{number:x}" for number in range(200, 240))
    scene = Scene()
    machine_of(scene, ended("GuestPanicked", 1, f"[    1.1] Kernel panic - not syncing: VFS\n{trace}"))
    told = "[    1.1] Kernel panic - not syncing: VFS / [    1.238] do_something+0xee / [    1.239] do_something+0xef."
    assert why(scene, PODS.resource, "vm").sentence.endswith(f"machine panicked; last lines: {told}")


def test_a_machine_that_is_stopped_says_so_and_how_to_start_it() -> None:
    scene, made = Scene(), machines("DFW")
    scene.place("DFW")
    made["spec"]["template"]["spec"]["runtime"]["virtualMachine"]["running"] = False
    [deployment] = scene.deploy(made).values()
    name = scene.instance(deployment, 0, ready=False, reason="Stopped").metadata.name
    found = why(scene, INSTANCES.resource, name)
    assert found.sentence == f"Instance default/{name} is stopped: The machine is shutting down."
    scene.remove(PODS.resource, f"default/{name}")
    found = why(scene, INSTANCES.resource, name)
    told = "The machine is stopped; its disks and addresses are kept."
    assert found.sentence == f"Instance default/{name} is stopped: {told}"
    assert found.change == f"Run `tarmac machine start -n default {name}`."
    whole = why(scene, DEPLOYMENTS.resource, deployment.metadata.name)
    assert [(line.answer, line.message) for line in whole.verdicts] == [
        ("Yes", "0 of 1 instances are ready, 1 stopped.")
    ]


def test_a_machine_that_boots_is_waited_for() -> None:
    scene = Scene()
    machine_of(scene, RUNS, ("ContainersNotReady", "containers with unready status: [machine]"))
    assert [(line.answer, line.reason) for line in why(scene, PODS.resource, "vm").verdicts][-1] == ("Wait", "NotReady")
