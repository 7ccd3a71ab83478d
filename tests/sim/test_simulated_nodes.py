"""Simulated nodes act like nodes: register, send heartbeats, run bound pods, and end them on request."""

from __future__ import annotations

import pytest

from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.base.clock import parse_rfc3339
from tarmac.client.targets.untyped import LEASES, NODES
from tarmac.sim.nodes.settings import Behaviour, HeartbeatSettings
from tests.sim.stage import Stage, play, pod

LABEL = "topology.datum.net/location"


def conditions(obj: JsonObject) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in obj["status"]["conditions"]}


def test_nodes_register_with_their_place_and_size() -> None:
    async def story(stage: Stage) -> None:
        node = await stage.node("lhr-0")
        assert node["metadata"]["labels"][LABEL] == "lhr"
        assert node["metadata"]["labels"]["topology.datum.net/region"] == "EU"
        amounts = node["status"]["allocatable"]
        assert (amounts["cpu"], amounts["memory"], amounts["pods"]) == ("32", "128Gi", "110")
        assert conditions(node)["Ready"] == "True"

    play(story)


def test_leases_are_renewed_well_before_they_run_out() -> None:
    async def story(stage: Stage) -> None:
        for _ in range(20):
            await stage.wait(60)
            lease = await stage.user.resource(LEASES).get("dfw-0", "kube-node-lease")
            age = stage.world.clock.now() - parse_rfc3339(lease["spec"]["renewTime"])
            assert age <= 12 < lease["spec"]["leaseDurationSeconds"]

    play(story)


def test_thousands_of_nodes_beat_more_slowly_and_say_so() -> None:
    beat = HeartbeatSettings.for_fleet(5000)
    assert 5000 / beat.interval <= 100
    assert beat.duration >= 4 * beat.interval
    assert HeartbeatSettings.for_fleet(10) == HeartbeatSettings(10.0, 40.0)


def test_a_bound_pod_starts_after_a_moment_and_is_ready() -> None:
    async def story(stage: Stage) -> None:
        await stage.place("a")
        assert await stage.phase("a") == "Pending"
        await stage.wait(2)
        made = await stage.pod("a")
        assert made["status"]["phase"] == "Running"
        assert conditions(made)["Ready"] == conditions(made)["PodScheduled"] == "True"
        assert stage.really_running() == [("dfw-0", "a")]

    play(story)


def test_a_pod_without_a_node_is_nobodys_business() -> None:
    async def story(stage: Stage) -> None:
        await stage.pods.create(pod("unbound"))
        await stage.wait(30)
        assert await stage.phase("unbound") == "Pending"
        assert stage.really_running() == []

    play(story)


def test_images_below_invalid_never_arrive() -> None:
    async def story(stage: Stage) -> None:
        made = pod("a", image="registry.example.invalid/app:1")
        await stage.pods.create(made)
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "dfw-0"}}
        await stage.pods.create(binding, namespace="default", name="a", subresource="binding")
        await stage.wait(600)
        assert await stage.phase("a") == "Pending"
        assert (await stage.state("a"))["state"]["waiting"]["reason"] == "ImagePullBackOff"
        assert stage.really_running() == []

    play(story)


def test_a_pod_that_is_told_to_crash_does_so_after_every_start() -> None:
    async def story(stage: Stage) -> None:
        await stage.place("a", annotations={"sim.tarmac/crash-after": "5s"})
        await stage.wait(4)
        assert (await stage.state("a"))["ready"]
        await stage.wait(4)
        state = await stage.state("a")
        assert (state["restartCount"], state["lastState"]["terminated"]["exitCode"]) == (1, 1), "the first is immediate"
        await stage.wait(5)
        assert (await stage.state("a"))["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        await stage.wait(200)
        assert (await stage.state("a"))["restartCount"] >= 3

    play(story)


@pytest.mark.parametrize(
    ("policy", "phase"), [("OnFailure", "Succeeded"), ("Never", "Succeeded"), ("Always", "Running")]
)
def test_a_pod_whose_programs_exit_succeeds_unless_they_are_to_run_always(policy: str, phase: str) -> None:
    async def story(stage: Stage) -> None:
        spec = {**pod("a")["spec"], "restartPolicy": policy}
        await stage.place("a", spec=spec, annotations={"sim.tarmac/exit-after": "5s"})
        await stage.wait(4)
        assert (await stage.state("a"))["ready"]
        await stage.wait(4)
        found, state = await stage.pod("a"), await stage.state("a")
        assert found["status"]["phase"] == phase
        ended = (state["state"] if phase == "Succeeded" else state["lastState"])["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
        ready = next(each for each in found["status"]["conditions"] if each["type"] == "Ready")
        assert (ready["status"], ready.get("reason")) == (
            ("False", "PodCompleted") if phase == "Succeeded" else ("True", None)
        )
        assert bool(stage.really_running()) is (phase == "Running")

    play(story)


@pytest.mark.parametrize(
    ("behaviour", "reason", "code"),
    [(Behaviour(out_of_memory=1.0), "OOMKilled", 137), (Behaviour(fails=1.0), "Error", 1)],
)
def test_misfortune_strikes_as_often_as_it_is_told_to(behaviour: Behaviour, reason: str, code: int) -> None:
    async def story(stage: Stage) -> None:
        await stage.place("a")
        await stage.wait(120)
        state = await stage.state("a")
        assert (state["lastState"]["terminated"]["reason"], state["lastState"]["terminated"]["exitCode"]) == (
            reason,
            code,
        )
        assert state["ready"]
        assert state["restartCount"] == 1

    play(story, behaviour)


def test_a_deleted_pod_ends_and_then_its_object_goes() -> None:
    async def story(stage: Stage) -> None:
        await stage.place("a")
        await stage.wait(3)
        await stage.pods.delete("a", "default")
        assert "deletionTimestamp" in (await stage.pod("a"))["metadata"]
        await stage.wait(1)
        with pytest.raises(NotFound):
            await stage.pod("a")
        assert stage.really_running() == []

    play(story)


def test_a_dead_node_is_silent_and_starts_its_pods_again_when_it_boots() -> None:
    async def story(stage: Stage) -> None:
        await stage.place("a")
        await stage.wait(3)
        stage.fleet.die("dfw-0")
        assert stage.really_running() == []
        await stage.wait(60)
        lease = await stage.user.resource(LEASES).get("dfw-0", "kube-node-lease")
        assert stage.world.clock.now() - parse_rfc3339(lease["spec"]["renewTime"]) > 50
        stage.fleet.revive("dfw-0")
        await stage.wait(3)
        assert stage.really_running() == [("dfw-0", "a")]
        assert (await stage.state("a"))["restartCount"] == 1

    play(story)


def test_a_node_that_is_cut_off_runs_on_and_catches_up() -> None:
    async def story(stage: Stage) -> None:
        for name in ("stays", "goes", "forced"):
            await stage.place(name)
        await stage.wait(3)
        stage.fleet.cut("dfw-0")
        await stage.pods.delete("goes", "default")
        await stage.pods.delete("forced", "default", grace=0)
        await stage.place("comes")
        await stage.wait(60)
        assert stage.really_running() == [("dfw-0", "forced"), ("dfw-0", "goes"), ("dfw-0", "stays")]
        assert await stage.phase("comes") == "Pending"
        stage.fleet.heal("dfw-0")
        await stage.wait(5)
        assert stage.really_running() == [("dfw-0", "comes"), ("dfw-0", "stays")]
        assert (await stage.state("stays"))["restartCount"] == 0

    play(story)


def test_a_node_that_is_called_dead_says_that_it_lives() -> None:
    async def story(stage: Stage) -> None:
        patch = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        await stage.user.resource(NODES).patch("dfw-0", patch, type="strategic", subresource="status")
        await stage.wait(1)
        assert conditions(await stage.node("dfw-0"))["Ready"] == "True"
        await stage.user.resource(NODES).delete("dfw-0")
        await stage.wait(1)
        assert conditions(await stage.node("dfw-0"))["Ready"] == "True"

    play(story)


def test_a_pod_that_is_called_unready_with_its_node_says_that_it_is_ready() -> None:
    async def story(stage: Stage) -> None:
        await stage.place("a")
        await stage.wait(3)
        patch = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await stage.pods.patch("a", patch, "default", type="strategic", subresource="status")
        await stage.wait(1)
        assert conditions(await stage.pod("a"))["Ready"] == "True"

    play(story)
