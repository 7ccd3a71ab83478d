"""Computes an Instance's status from its gates, its blocks and its Pod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tarmac.api.compute.instance import InstanceStatus, InterfaceStatus, ObservedController
from tarmac.api.shared import Summary
from tarmac.decide import reasons
from tarmac.decide.powerstate import STOPPED_TEXT
from tarmac.decide.rollup.conditions import Finding, merge, most_actionable
from tarmac.decide.rollup.podprogress import PodProgress
from tarmac.decide.verdict import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceInput:
    """Input of an Instance's status.

    `blocks` are refusals found outside the Pod: a network that cannot be created, an exhausted quota, a missing
    ConfigMap. `stopped` means that the machine should be stopped.
    """

    generation: int
    template_hash: str
    gates: Sequence[str] = ()
    blocks: Sequence[Refusal] = ()
    pod: PodProgress | None = None
    interfaces: Sequence[InterfaceStatus] = ()
    deleting: bool = False
    stopped: bool = False


def instance_status(given: InstanceInput, old: InstanceStatus | None, now: float) -> InstanceStatus:
    """Return the whole status; equal to the old one when nothing changed."""
    pod = given.pod
    findings = _findings(given)
    programmed, ready = findings[0], findings[-1]
    before = (old.controller if old else None) or ObservedController()
    observed = ObservedController(given.template_hash) if programmed.holds else before
    return InstanceStatus(
        observed_generation=given.generation,
        conditions=merge(old.conditions if old else [], findings, given.generation, now),
        controller=observed if observed.observed_template_hash else None,
        network_interfaces=list(given.interfaces),
        node_name=pod.node if pod else "",
        restarts=pod.restarts if pod else 0,
        qos_class=pod.qos_class if pod else "",
        summary=_summary(given, ready),
    )


def _findings(given: InstanceInput) -> tuple[Finding, Finding, Finding]:
    pod = given.pod
    if pod is None and given.stopped:
        programmed = Finding("Programmed", "False", reasons.STOPPED, STOPPED_TEXT)
        running = Finding("Running", "False", reasons.STOPPED, STOPPED_TEXT)
    elif pod is None:
        programmed = Finding("Programmed", "False", reasons.PENDING_PROGRAMMING, "Instance has not been programmed")
        running = Finding("Running", "False", reasons.PENDING, "Instance is not running")
    else:
        programmed, running = pod.programmed, pod.running
    return programmed, running, _ready(given, programmed, running)


def _ready(given: InstanceInput, programmed: Finding, running: Finding) -> Finding:
    """Return the first finding that applies: gates, programming, running, the Pod's own Ready condition."""
    if given.gates:
        waiting = Refusal(
            reasons.SCHEDULING_GATES_PRESENT, f"Scheduling gates present: {', '.join(sorted(given.gates))}"
        )
        return _not_ready(waiting, given.blocks)
    if given.stopped:
        # Blocks prevent a machine from starting, so they do not matter for one that should be stopped.
        stopping = Finding("Ready", "False", reasons.STOPPING, "The machine is shutting down.")
        return stopping if given.pod else Finding("Ready", "False", reasons.STOPPED, STOPPED_TEXT)
    for step in (programmed, running):
        if not step.holds:
            return _not_ready(Refusal(step.reason, step.message), given.blocks)
    assert given.pod is not None, "only a Pod makes an instance run"
    return given.pod.ready


def _not_ready(step: Refusal, blocks: Sequence[Refusal]) -> Finding:
    shown = most_actionable((step, *blocks)) or step
    return Finding("Ready", "False", shown.reason, shown.message)


def _summary(given: InstanceInput, ready: Finding) -> Summary:
    """Return one word, like the STATUS of a Pod: the state of the instance, or the reason it is not ready."""
    if given.deleting:
        return Summary(status="Deleting")
    return Summary(status=ready.reason, reason="" if ready.holds else ready.reason)
