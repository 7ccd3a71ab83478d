"""An Instance's conditions, computed from its gates, its blockers and its Pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.compute.instance import InstanceStatus
from tarmac.api.compute.names import ANNOTATION_UNSCHEDULABLE
from tarmac.api.shared import Condition
from tarmac.decide import reasons
from tarmac.decide.rollup import InstanceInput, PodProgress, instance_status, read_pod
from tarmac.decide.verdict import Refusal

NOW = 1_800_000_000.0


def pod(
    *containers: dict[str, Any],
    node: str = "dfw-0",
    conditions: dict[str, tuple[str, str, str]] | None = None,
    noted: str = "",
    **status: Any,
) -> PodProgress:
    """Return a Pod as the server stores it; conditions are type: (status, reason, message)."""
    written = [
        {"type": kind, "status": value, "reason": reason, "message": message}
        for kind, (value, reason, message) in (conditions or {}).items()
    ]
    obj = {
        "metadata": {
            "name": "web-0",
            "namespace": "default",
            "uid": "u",
            "annotations": {ANNOTATION_UNSCHEDULABLE: noted},
        },
        "spec": {"nodeName": node, "containers": []},
        "status": {"conditions": written, "containerStatuses": list(containers), **status},
    }
    return read_pod(msgspec.json.encode(obj))


def container(restarts: int = 0, last: str = "", **state: Any) -> dict[str, Any]:
    """Return a container status with one state."""
    ended = {"terminated": {"reason": last, "exitCode": 1}} if last else {}
    return {"name": "api", "state": state, "lastState": ended, "restartCount": restarts}


def waiting(reason: str, message: str = "", last: str = "") -> dict[str, Any]:
    """Return a waiting container."""
    return container(last=last, waiting={"reason": reason, "message": message})


SANDBOX = {"PodReadyToStartContainers": ("True", "", "")}
RUNNING = container(running={"startedAt": "2026-11-15T12:00:00Z"})
READY_POD = pod(RUNNING, conditions={**SANDBOX, "Ready": ("True", "", "")}, qosClass="Guaranteed")


def status_of(given: InstanceInput, old: InstanceStatus | None = None, now: float = NOW) -> dict[str, Condition]:
    """Return the conditions by type."""
    return {each.type: each for each in instance_status(given, old, now).conditions}


def facts(**known: Any) -> InstanceInput:
    """Return an instance of generation 3."""
    return InstanceInput(generation=3, template_hash="a", **known)


@pytest.mark.parametrize(
    ("given", "programmed", "running", "ready"),
    [
        (facts(), reasons.PENDING_PROGRAMMING, reasons.PENDING, reasons.PENDING_PROGRAMMING),
        (facts(pod=pod(node="")), reasons.PENDING_PROGRAMMING, reasons.STARTING, reasons.PENDING_PROGRAMMING),
        (
            facts(pod=pod(node="", conditions={"PodScheduled": ("False", "Unschedulable", "0/3 nodes: 3 are full")})),
            reasons.INSUFFICIENT_CAPACITY,
            reasons.STARTING,
            reasons.INSUFFICIENT_CAPACITY,
        ),
        (
            facts(pod=pod(node="", conditions={"PodScheduled": ("False", "InsufficientCapacity", "0/3 nodes")})),
            reasons.INSUFFICIENT_CAPACITY,
            reasons.STARTING,
            reasons.INSUFFICIENT_CAPACITY,
        ),
        (facts(pod=pod()), reasons.PROGRAMMING_IN_PROGRESS, reasons.STARTING, reasons.PROGRAMMING_IN_PROGRESS),
        (facts(pod=pod(podIP="10.0.0.2")), reasons.PROGRAMMED, reasons.STARTING, reasons.STARTING),
        (facts(pod=pod(conditions=SANDBOX)), reasons.PROGRAMMED, reasons.STARTING, reasons.STARTING),
        (facts(pod=pod(RUNNING, conditions=SANDBOX)), reasons.PROGRAMMED, reasons.RUNNING, reasons.NOT_READY),
        (facts(pod=READY_POD), reasons.PROGRAMMED, reasons.RUNNING, reasons.RUNNING),
    ],
)
def test_the_steps_to_ready(given: InstanceInput, programmed: str, running: str, ready: str) -> None:
    """Bound and sandboxed, then containers started, then the Pod's own condition."""
    found = status_of(given)
    assert (found["Programmed"].reason, found["Running"].reason, found["Ready"].reason) == (programmed, running, ready)
    assert (found["Ready"].status == "True") == (ready == reasons.RUNNING)
    assert {each.observed_generation for each in found.values()} == {3}


@pytest.mark.parametrize(
    ("noted", "reason"),
    [("NodeUnschedulable", reasons.NODE_UNSCHEDULABLE), ("Nonsense", reasons.INSUFFICIENT_CAPACITY)],
)
def test_the_note_of_the_scheduler_is_the_reason(noted: str, reason: str) -> None:
    said = {"PodScheduled": ("False", "Unschedulable", "0/3 nodes: 3 cordoned")}
    assert status_of(facts(pod=pod(node="", conditions=said, noted=noted)))["Ready"].reason == reason


@pytest.mark.parametrize(
    ("ailing", "reason"),
    [
        (waiting("ImagePullBackOff", "manifest unknown"), reasons.IMAGE_UNAVAILABLE),
        (waiting("CreateContainerConfigError", 'configmap "web" not found'), reasons.SOURCE_NOT_FOUND),
        (waiting("CreateContainerConfigError", "runAsNonRoot"), reasons.CONFIGURATION_ERROR),
        (waiting("CrashLoopBackOff", "back-off 10s", last="Error"), reasons.INSTANCE_CRASHING),
        (waiting("CrashLoopBackOff", "back-off 10s", last="OOMKilled"), reasons.OUT_OF_MEMORY),
        (container(terminated={"reason": "OOMKilled", "exitCode": 137}), reasons.OUT_OF_MEMORY),
        (container(terminated={"reason": "Completed", "exitCode": 0}), reasons.STOPPED),
        (waiting("ContainerCreating"), reasons.STARTING),
        (waiting("ImageRefused", "the qcow2 image has a backing file"), reasons.IMAGE_REFUSED),
        (waiting("CrashLoopBackOff", "back-off 10s", last="GuestPanicked"), reasons.GUEST_PANICKED),
        (container(terminated={"reason": "GuestPanicked", "exitCode": 1}), reasons.GUEST_PANICKED),
        (waiting("CrashLoopBackOff", "back-off 10s", last="MachineFailed"), reasons.MACHINE_FAILED),
        (waiting("CrashLoopBackOff", "back-off 10s", last="Killed"), reasons.INSTANCE_CRASHING),
    ],
)
def test_the_worst_container_gives_the_reason(ailing: dict[str, Any], reason: str) -> None:
    """The worst one counts, in any order."""
    for containers in ((ailing, RUNNING), (RUNNING, ailing)):
        ready = status_of(facts(pod=pod(*containers, conditions=SANDBOX)))["Ready"]
        assert (ready.status, ready.reason) == ("False", reason)
    assert "api" in ready.message or reason in (reasons.STOPPED, reasons.STARTING)


def test_a_pod_that_failed_or_lost_its_node_says_so() -> None:
    """With the node's message."""
    failed = status_of(facts(pod=pod(conditions=SANDBOX, phase="Failed", reason="Evicted", message="disk full")))
    assert (failed["Ready"].reason, failed["Ready"].message) == (reasons.FAILED, "Evicted: disk full")
    lost = status_of(facts(pod=pod(RUNNING, conditions=SANDBOX, reason="NodeLost", message="no lease")))
    assert lost["Ready"].reason == reasons.NODE_LOST


@pytest.mark.parametrize("reason", [reasons.MACHINE_PAUSED, reasons.DISK_FULL])
def test_a_machine_that_stands_still_runs_and_says_why_it_does_not_serve(reason: str) -> None:
    """The reason comes from its Pod's own condition."""
    found = status_of(facts(pod=pod(RUNNING, conditions={**SANDBOX, "Ready": ("False", reason, "since 12:03")})))
    assert (found["Running"].status, found["Ready"].status) == ("True", "False")
    assert (found["Ready"].reason, found["Ready"].message) == (reason, "since 12:03")


def test_gates_come_first_and_name_themselves() -> None:
    """Unless a more useful reason is known."""
    gated = status_of(facts(gates=["Quota", "Network"]))["Ready"]
    assert (gated.reason, gated.message) == (
        reasons.SCHEDULING_GATES_PRESENT,
        "Scheduling gates present: Network, Quota",
    )
    full = Refusal(reasons.QUOTA_EXHAUSTED, "pods: 10 of 10 used")
    broken = Refusal(reasons.NETWORK_FAILED_TO_CREATE, "no room for a subnet")
    for blocks, reason in (([full], full.reason), ([full, broken], broken.reason)):
        assert status_of(facts(gates=["Network"], blocks=blocks))["Ready"].reason == reason


def test_a_missing_source_is_shown_while_the_pod_waits_and_not_once_it_is_ready() -> None:
    """A missing source is no gate."""
    missing = Refusal(reasons.SOURCE_NOT_FOUND, "ConfigMap web does not exist")
    assert status_of(facts(pod=pod(), blocks=[missing]))["Ready"].reason == reasons.SOURCE_NOT_FOUND
    assert status_of(facts(pod=READY_POD, blocks=[missing]))["Ready"].status == "True"


def test_ready_falls_back_and_the_time_moves_only_then() -> None:
    """A ready instance whose Pod is lost is not ready any more."""
    first = instance_status(facts(pod=READY_POD), None, NOW)
    same = instance_status(facts(pod=READY_POD), first, NOW + 60)
    assert same == first
    lost = instance_status(facts(), first, NOW + 60)
    ready = {each.type: each for each in lost.conditions}["Ready"]
    assert (ready.status, ready.last_transition_time) == ("False", "2027-01-15T08:01:00Z")


def test_the_rest_of_the_status_follows_the_pod() -> None:
    """Node, restarts, quality of service, and the running template."""
    status = instance_status(facts(pod=READY_POD), None, NOW)
    assert (status.node_name, status.restarts, status.qos_class) == ("dfw-0", 0, "Guaranteed")
    assert status.controller is not None
    assert status.controller.observed_template_hash == "a"
    assert instance_status(facts(pod=pod(container(2))), None, NOW).restarts == 2
    assert instance_status(facts(), None, NOW).controller is None


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (facts(pod=READY_POD), "Running"),
        (facts(pod=READY_POD, deleting=True), "Deleting"),
        (facts(gates=["Quota"], blocks=[Refusal(reasons.QUOTA_EXHAUSTED, "")]), "QuotaExhausted"),
        (facts(), "PendingProgramming"),
    ],
)
def test_the_status_column_is_one_word(given: InstanceInput, word: str) -> None:
    """The state, or the reason that it is not ready."""
    summary = instance_status(given, None, NOW).summary
    assert summary is not None
    assert summary.status == word


@given(
    st.sets(st.sampled_from(["Network", "Quota"])),
    st.lists(st.sampled_from(sorted(reasons.CATALOGUE)).map(lambda code: Refusal(code, code)), max_size=4),
    st.sampled_from([None, READY_POD, pod(node=""), pod(), pod(waiting("ImagePullBackOff"), conditions=SANDBOX)]),
)
def test_ready_is_true_exactly_when_the_pod_is_and_no_gate_is_left(
    gates: set[str], blocks: list[Refusal], view: PodProgress | None
) -> None:
    """Otherwise it shows the most useful known reason."""
    ready = status_of(facts(gates=sorted(gates), blocks=blocks, pod=view))["Ready"]
    assert (ready.status == "True") == (view is READY_POD and not gates)
    if ready.status == "False":
        assert all(reasons.priority(ready.reason) >= reasons.priority(block.reason) for block in blocks)
