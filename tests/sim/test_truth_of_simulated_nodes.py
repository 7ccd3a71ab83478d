"""Simulated nodes treat pods like real nodes: resizes, readiness gates, probes, images, events, restarts."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.client.targets.untyped import EVENTS
from tarmac.sim.nodes.configuration import BadNodeConfig, ClassLimit, SimNodeConfig, model_of
from tarmac.sim.nodes.model import NodeModel
from tarmac.sim.nodes.settings import NodeShape
from tests.sim.stage import Stage, play, pod

CPU = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}


def condition(obj: JsonObject, kind: str) -> JsonObject:
    return next((each for each in obj["status"]["conditions"] if each["type"] == kind), {})


async def reasons(stage: Stage, name: str) -> dict[str, int]:
    """Return the counts of a pod's events by reason."""
    found: dict[str, int] = {}
    for each in (await stage.user.resource(EVENTS).list("default")).items:
        if each["involvedObject"]["name"] == name:
            found[each["reason"]] = found.get(each["reason"], 0) + each["count"]
    return found


async def resize(stage: Stage, name: str, **resources: Any) -> None:
    patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    await stage.pods.patch(name, patch, "default", type="strategic", subresource="resize")


async def placed(stage: Stage, name: str, resources: JsonObject | None = None, **container: Any) -> None:
    made = {**pod(name)["spec"]["containers"][0], "resources": resources or CPU, **container}
    await stage.place(name, spec={"containers": [made]})
    await stage.wait(3)


def test_a_resize_in_place_is_carried_out_without_a_restart() -> None:
    async def story(stage: Stage) -> None:
        await placed(stage, "a")
        assert (await stage.state("a"))["resources"] == CPU
        await resize(stage, "a", requests={"cpu": "3"}, limits={"cpu": "4"})
        await stage.wait(1)
        state = await stage.state("a")
        assert (state["allocatedResources"], state["resources"]["limits"]) == ({"cpu": "3"}, {"cpu": "4"})
        assert state["restartCount"] == 0
        found = await stage.pod("a")
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        assert not condition(found, "PodResizePending")

    play(story)


def test_a_resize_that_needs_a_restart_restarts_the_container() -> None:
    async def story(stage: Stage) -> None:
        policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
        await placed(stage, "a", resizePolicy=policy)
        await resize(stage, "a", requests={"cpu": "3"}, limits={"cpu": "4"})
        await stage.wait(3)
        state = await stage.state("a")
        assert (state["restartCount"], state["ready"], state["resources"]["limits"]) == (1, True, {"cpu": "4"})
        assert (await reasons(stage, "a"))["Killing"] == 1

    play(story)


def test_a_resize_that_no_room_is_left_for_waits_until_there_is() -> None:
    async def story(stage: Stage) -> None:
        await placed(stage, "a")
        await placed(stage, "b", {"requests": {"cpu": "30"}})
        await resize(stage, "a", requests={"cpu": "5"}, limits={"cpu": "5"})
        await stage.wait(1)
        waits = condition(await stage.pod("a"), "PodResizePending")
        assert (waits["status"], waits["reason"]) == ("True", "Deferred")
        assert (await stage.state("a"))["allocatedResources"] == {"cpu": "1"}
        await stage.pods.delete("b", "default")
        await stage.wait(2)
        assert (await stage.state("a"))["allocatedResources"] == {"cpu": "5"}
        assert not condition(await stage.pod("a"), "PodResizePending")

    play(story)


def test_a_resize_beyond_the_node_is_infeasible() -> None:
    async def story(stage: Stage) -> None:
        await placed(stage, "a")
        await resize(stage, "a", requests={"cpu": "33"}, limits={"cpu": "33"})
        await stage.wait(1)
        assert condition(await stage.pod("a"), "PodResizePending")["reason"] == "Infeasible"

    play(story)


def test_a_readiness_gate_keeps_a_pod_unready_until_its_condition_holds() -> None:
    async def story(stage: Stage) -> None:
        await stage.place("a", spec={"readinessGates": [{"conditionType": "example.com/checked"}]})
        await stage.wait(3)
        found = await stage.pod("a")
        assert condition(found, "ContainersReady")["status"] == "True"
        assert condition(found, "Ready")["reason"] == "ReadinessGatesNotReady"
        for status in ("True", "False", "True"):
            checked = {"status": {"conditions": [{"type": "example.com/checked", "status": status}]}}
            await stage.pods.patch("a", checked, "default", type="strategic", subresource="status")
            await stage.wait(1)
            assert condition(await stage.pod("a"), "Ready")["status"] == status

    play(story)


@pytest.mark.parametrize("kind", ["liveness", "startup"])
def test_a_probe_that_fails_ends_its_container_after_its_threshold(kind: str) -> None:
    async def story(stage: Stage) -> None:
        probe = {"exec": {"command": ["false"]}, "periodSeconds": 2, "failureThreshold": 2}
        main = {**pod("a")["spec"]["containers"][0], f"{kind}Probe": probe}
        annotations = {"sim.tarmac/failing-probes": kind}
        await stage.place("a", spec={"containers": [main]}, annotations=annotations)
        await stage.wait(3)
        assert (await stage.state("a"))["started"] is (kind == "liveness")
        await stage.wait(5)
        assert (await stage.state("a"))["restartCount"] == 1
        told = await reasons(stage, "a")
        assert told["Unhealthy"] >= 2
        assert told["Killing"] == 1

    play(story)


def test_a_readiness_probe_that_fails_keeps_a_pod_unready_until_it_passes() -> None:
    async def story(stage: Stage) -> None:
        main = {**pod("a")["spec"]["containers"][0], "readinessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 1}}
        await stage.place("a", spec={"containers": [main]}, annotations={"sim.tarmac/failing-probes": "readiness"})
        await stage.wait(20)
        found = await stage.pod("a")
        assert (found["status"]["phase"], condition(found, "Ready")["reason"]) == ("Running", "ContainersNotReady")
        assert (await stage.state("a"))["restartCount"] == 0
        assert (await reasons(stage, "a"))["Unhealthy"] > 3
        await stage.pods.patch("a", {"metadata": {"annotations": {"sim.tarmac/failing-probes": None}}}, "default")
        await stage.wait(1)
        assert condition(await stage.pod("a"), "Ready")["status"] == "True"

    play(story)


@pytest.mark.parametrize("image", ["registry.example.invalid/app:1", "example.com/App:1", "example.com/app:"])
def test_an_image_that_cannot_exist_fails_and_is_tried_again_when_it_names_another(image: str) -> None:
    async def story(stage: Stage) -> None:
        main = {**pod("a")["spec"]["containers"][0], "image": image}
        await stage.place("a", spec={"containers": [main]})
        await stage.wait(3)
        assert (await stage.state("a"))["state"]["waiting"]["reason"] == "ErrImagePull"
        await stage.wait(10)
        assert (await stage.state("a"))["state"]["waiting"]["reason"] == "ImagePullBackOff"
        assert {"Pulling", "Failed", "BackOff"} == (await reasons(stage, "a")).keys()
        corrected = [{"op": "replace", "path": "/spec/containers/0/image", "value": "example.com/app:1"}]
        await stage.pods.patch("a", corrected, "default", type="json")
        await stage.wait(2)
        assert (await stage.state("a"))["ready"]

    play(story)


def test_another_image_restarts_the_container_with_it() -> None:
    async def story(stage: Stage) -> None:
        await placed(stage, "a")
        other = [{"op": "replace", "path": "/spec/containers/0/image", "value": "example.com/app:2"}]
        await stage.pods.patch("a", other, "default", type="json")
        await stage.wait(2)
        state = await stage.state("a")
        assert (state["image"], state["restartCount"], state["ready"]) == ("example.com/app:2", 1, True)

    play(story)


def test_events_tell_of_a_start_a_crash_and_the_end() -> None:
    async def story(stage: Stage) -> None:
        await stage.place("a", annotations={"sim.tarmac/crash-after": "5s"})
        await stage.wait(20)
        assert {"Pulled", "Created", "Started", "BackOff"} == (await reasons(stage, "a")).keys()
        [started] = [
            each for each in (await stage.user.resource(EVENTS).list("default")).items if each["reason"] == "Started"
        ]
        assert started["source"] == {"component": "kubelet", "host": "dfw-0"}
        assert started["involvedObject"]["fieldPath"] == "spec.containers{main}"
        await stage.place("b")
        await stage.wait(3)
        await stage.pods.delete("b", "default")
        await stage.wait(2)
        assert "Killing" in await reasons(stage, "b")

    play(story)


def test_a_node_that_boots_keeps_the_count_of_each_container_and_clears_what_was_said_before() -> None:
    async def story(stage: Stage) -> None:
        two = [{**pod("a")["spec"]["containers"][0], "name": name} for name in ("one", "two")]
        await stage.place("a", spec={"containers": two})
        await stage.wait(3)
        lost = {"status": {"reason": "NodeLost", "message": "its node does not answer"}}
        await stage.pods.patch("a", lost, "default", type="strategic", subresource="status")
        for count in (1, 2):
            stage.fleet.die("dfw-0")
            await stage.wait(5)
            stage.fleet.revive("dfw-0")
            await stage.wait(15)
            status = (await stage.pod("a"))["status"]
            assert [each["restartCount"] for each in status["containerStatuses"]] == [count, count]
            assert "reason" not in status
            assert "message" not in status

    play(story)


def test_a_container_that_ran_long_enough_starts_again_at_once() -> None:
    async def story(stage: Stage) -> None:
        await stage.place("a", annotations={"sim.tarmac/crash-after": "11m"})
        for count in (1, 2, 3):
            await stage.wait(11 * 60 + 5)
            state = await stage.state("a")
            assert (state["restartCount"], "running" in state["state"]) == (count, True)

    play(story)


def classed(**config: Any) -> dict[str, NodeModel]:
    return {"dfw": model_of(SimNodeConfig(**config), NodeShape())}


def test_types_of_classes_for_whole_pods_and_types_that_cannot_change_are_published() -> None:
    async def story(stage: Stage) -> None:
        status = (await stage.node("dfw-0"))["status"]
        assert status["podClassResources"] == [{"name": "network", "classes": [{"name": "gold", "capacity": 1}]}]
        assert status["containerClassResources"] == [
            {"name": "blockio", "immutable": True, "classes": [{"name": "fast"}, {"name": "slow"}]}
        ]
        await stage.place("a", spec={"resources": {"classes": {"network": "gold"}}})
        await stage.wait(3)
        assert (await stage.pod("a"))["status"]["resources"] == {"classes": {"network": "gold"}}
        await stage.place("b", spec={"resources": {"classes": {"network": "gold"}}})
        await stage.wait(3)
        assert (await stage.pod("b"))["status"]["reason"] == "ClassExhausted"
        await placed(stage, "c", {"classes": {"blockio": "slow"}})
        await resize(stage, "c", classes={"blockio": "fast"})
        await stage.wait(1)
        assert condition(await stage.pod("c"), "PodResizePending")["reason"] == "Infeasible"
        assert (await stage.state("c"))["resources"] == {"classes": {"blockio": "slow"}}

    limits: JsonObject = {"slow": ClassLimit(), "fast": ClassLimit()}
    models = classed(
        classes={"blockio": limits}, pod_classes={"network": {"gold": ClassLimit(1)}}, immutable_classes=["blockio"]
    )
    play(story, models=models)


def test_a_class_of_a_type_that_can_change_is_changed() -> None:
    async def story(stage: Stage) -> None:
        await placed(stage, "c", {"classes": {"blockio": "slow"}})
        await resize(stage, "c", classes={"blockio": "fast"})
        await stage.wait(1)
        assert (await stage.state("c"))["resources"] == {"classes": {"blockio": "fast"}}

    play(story, models=classed(classes={"blockio": {"slow": ClassLimit(), "fast": ClassLimit()}}))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"pod_classes": {"a": {"x": ClassLimit()}}, "classes": {"a": {"x": ClassLimit()}}}, "podClasses.a"),
        ({"immutable_classes": ["a"]}, "immutableClasses: a is neither"),
    ],
)
def test_classes_that_make_no_sense_are_refused(config: Any, message: str) -> None:
    with pytest.raises(BadNodeConfig, match=message):
        model_of(SimNodeConfig(**config))
