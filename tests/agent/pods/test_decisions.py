"""Invariants of every decision, for any pod and any sequence of events.

A small model executes the decisions: sandboxes and containers start and end at once. Between decisions, random events
end containers, break sandboxes, fail probes and let time pass.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.agent.containers.identity import container_hash
from tarmac.agent.containers.notes import HASH
from tarmac.agent.model.backoff import BackOffs
from tarmac.agent.model.pod import AgentPod, is_sidecar
from tarmac.agent.model.runtimestate import PodRuntimeState
from tarmac.agent.pods.podactions import Kill, MakeSandbox, PodActions, Resize, Situation, Start, StopSandbox, decide
from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import ContainerState, PodIdentity, RuntimeContainer, RuntimeSandbox

STEPS = 60


@st.composite
def pods(draw: st.DrawFn) -> AgentPod:
    """Generate pods of any shape."""
    probe: JsonObject = {"tcpSocket": {"port": 1}}

    def container(name: str, sidecar: bool = False) -> JsonObject:
        spec: JsonObject = {"name": name, "image": "app"}
        if sidecar:
            spec["restartPolicy"] = "Always"
        if draw(st.booleans()):
            spec["startupProbe"] = probe
        return spec

    init = [container(f"i{index}", draw(st.booleans())) for index in range(draw(st.integers(0, 3)))]
    plain = [container(f"c{index}") for index in range(draw(st.integers(1, 3)))]
    policy = draw(st.sampled_from(["Always", "OnFailure", "Never"]))
    spec = {"initContainers": init, "containers": plain, "restartPolicy": policy}
    return AgentPod({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec})


class Model:
    """A runtime in which every action takes effect at once, and the agent's state beside it."""

    def __init__(self, pod: AgentPod, chance: random.Random) -> None:
        self.pod = pod
        self.chance = chance
        self.now = 1000.0
        self.ending = False
        self.sandboxes: list[RuntimeSandbox] = []
        self.containers: list[RuntimeContainer] = []
        self.started: dict[str, bool] = {}
        self.unhealthy: set[str] = set()
        self.replaced: set[str] = set()
        self.stopped: set[str] = set()
        self.back_offs = BackOffs()
        self.initialized_in: set[str] = set()

    @property
    def seen(self) -> PodRuntimeState:
        return PodRuntimeState(tuple(reversed(self.sandboxes)), tuple(reversed(self.containers)))

    def situation(self) -> Situation:
        return Situation(
            self.pod,
            self.seen,
            self.now,
            ending=self.ending,
            started=self.started,
            unhealthy=self.unhealthy,
            replaced=self.replaced,
            stopped=self.stopped,
            back_offs=self.back_offs,
        )

    # --- decisions ----------------------------------------------------------------------------------------------------

    def take(self, plan: PodActions) -> None:
        for action in plan.actions:
            self.now += 0.01
            match action:
                case MakeSandbox(attempt, _):
                    self.check_new_sandbox(attempt)
                    identity = PodIdentity("n", "p", "u", attempt)
                    self.sandboxes.append(
                        RuntimeSandbox(f"s{attempt}", identity, True, self.now, "", {}, {}, ("10.0.0.1",))
                    )
                case StopSandbox(id):
                    assert not self.seen.running, "a sandbox is stopped when its containers have ended"
                    self.stopped.add(id)
                    self._replace_sandbox(id)
                case Start():
                    self.start(action)
                case Kill(container, _, _, restart, after):
                    assert not set(after) & {container.id}
                    if restart:
                        self.replaced.add(container.id)
                    self.change(container.id, "exited", exit_code=137)
                case Resize():
                    raise AssertionError("nothing was resized")

    def start(self, action: Start) -> None:
        self.check_start(action)
        name = action.container["name"]
        if action.failed_at is not None:
            assert self.now >= action.failed_at + self.back_offs.delay(name, action.failed_at)
            self.back_offs.next(name, action.failed_at, self.now)
        if action.created:
            self.change(action.created, "running")
            return
        new = f"{name}/{len(self.containers)}"
        notes = {HASH: container_hash(action.container)}
        sandbox = self.sandboxes[-1].id
        state: ContainerState = "running" if self.chance.random() < 0.9 else "created"
        self.containers.append(
            RuntimeContainer(
                new, sandbox, name, action.attempt, state, "app", "", {}, notes, self.now, started_at=self.now
            )
        )

    # --- invariants ---------------------------------------------------------------------------------------------------

    def check_new_sandbox(self, attempt: int) -> None:
        assert not self.ending
        assert not any(each.ready for each in self.sandboxes), "one at a time"
        assert not self.seen.running, "the previous sandbox has no running container"
        assert attempt not in {each.pod.attempt for each in self.sandboxes}
        assert all(each.id in self.stopped for each in self.sandboxes), "networks are released first"

    def check_start(self, action: Start) -> None:
        name = action.container["name"]
        assert not self.ending, "nothing starts in a terminating pod"
        sandbox = self.seen.usable_sandbox(host_network=False)
        assert sandbox is not None, "nothing starts without a sandbox"
        running = [each.name for each in self.containers if each.state == "running"]
        assert name not in running, "nothing runs twice"
        if not action.created:
            attempts = [each.attempt for each in self.containers if each.name == name]
            assert action.attempt not in attempts, "each attempt has a new number"
        before = [each["name"] for each in self.pod.init_containers]
        earlier = before[: before.index(name)] if name in before else before
        if sandbox.id not in self.initialized_in:
            for each in earlier:
                self.check_done(self.pod.container(each) or {}, sandbox.id)
        if name not in before:
            self.initialized_in.add(sandbox.id)

    def check_done(self, spec: JsonObject, sandbox: str) -> None:
        last = self.seen.latest(spec["name"], sandbox)
        assert last is not None, f"{spec['name']} comes first"
        if not is_sidecar(spec):
            assert (last.state, last.exit_code) == ("exited", 0), "init containers succeed before the next one starts"

    # --- random events ------------------------------------------------------------------------------------------------

    def happen(self) -> None:
        roll = self.chance.random()
        running = [each for each in self.containers if each.state == "running"]
        if roll < 0.35 and running:
            victim = self.chance.choice(running)
            self.change(victim.id, "exited", exit_code=self.chance.choice([0, 0, 1, 255]))
        elif roll < 0.42 and self.sandboxes:
            for each in running:
                self.change(each.id, "exited", exit_code=128)
            self.sandboxes[-1] = replace(self.sandboxes[-1], ready=False)
        elif roll < 0.48 and running:
            self.change(self.chance.choice(running).id, "unknown")
        elif roll < 0.55 and running:
            self.unhealthy.add(self.chance.choice(running).id)
        elif roll < 0.75:
            for each in running:
                self.started.setdefault(each.id, self.chance.random() < 0.85)
        self.now += self.chance.choice([0.1, 1, 10, 100, 700])

    def change(self, id: str, state: ContainerState, exit_code: int = 0) -> None:
        index = next(index for index, each in enumerate(self.containers) if each.id == id)
        self.containers[index] = replace(
            self.containers[index], state=state, exit_code=exit_code, finished_at=self.now if state == "exited" else 0
        )

    def _replace_sandbox(self, id: str) -> None:
        index = next(index for index, each in enumerate(self.sandboxes) if each.id == id)
        self.sandboxes[index] = replace(self.sandboxes[index], ready=False)


def settle(model: Model) -> PodActions:
    """Decide and act until the plan is empty."""
    for _ in range(100):
        plan = decide(model.situation())
        assert plan == decide(model.situation()), "the decision is deterministic"
        if not plan.actions:
            return plan
        assert not plan.finished
        model.take(plan)
    raise AssertionError("it never comes to rest")


@given(pods(), st.integers(0, 2**32))
def test_every_decision_keeps_the_rules(pod: AgentPod, seed: int) -> None:
    model = Model(pod, random.Random(seed))
    for _ in range(STEPS):
        plan = settle(model)
        if plan.finished:
            assert not model.seen.running
            assert not any(each.ready for each in model.sandboxes)
            return
        model.happen()
    model.ending = True
    assert settle(model).finished
    assert not model.seen.running
    assert not any(each.ready for each in model.sandboxes)


@given(pods(), st.integers(0, 2**32))
def test_a_pod_left_in_peace_gets_all_its_containers_running(pod: AgentPod, seed: int) -> None:
    model = Model(pod, random.Random(seed))
    for _ in range(30):
        settle(model)
        for each in list(model.seen.running):
            model.started[each.id] = True
            if each.name.startswith("i") and not is_sidecar(pod.container(each.name) or {}):
                model.change(each.id, "exited")
        model.now += 400
    running = {each.name for each in model.containers if each.state == "running"}
    lasting = {each["name"] for each in pod.init_containers if is_sidecar(each)}
    assert running == lasting | {each["name"] for each in pod.containers}


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_a_container_that_crashes_repeatedly_runs_again(policy: str) -> None:
    spec: JsonObject = {"containers": [{"name": "c", "image": "app"}], "restartPolicy": policy}
    metadata: dict[str, Any] = {"name": "p", "namespace": "n", "uid": "u"}
    pod = AgentPod({"metadata": metadata, "spec": spec})
    for seed in range(50):
        model = Model(pod, random.Random(seed))
        for _ in range(20):
            settle(model)
            for each in list(model.seen.running):
                model.change(each.id, "exited", exit_code=1)
            model.now += 301
        settle(model)
        assert [each.name for each in model.seen.running] == ["c"]
