"""Simulated nodes follow rules of real nodes: generations, deadlines, missing sources, handlers of classes."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tarmac.api.identities import POD_SCHEDULER, controller_user
from tarmac.api.networking.interfaces import AttachedInterface, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339
from tarmac.client.targets.untyped import CONFIG_MAPS, PODS, RUNTIME_CLASSES, SECRETS
from tarmac.server.security.users import User
from tests.sim.stage import Stage, play, pod

SCHEDULER = User(controller_user(POD_SCHEDULER), groups=("system:masters",))


def made(name: str, container: JsonObject | None = None, **spec: Any) -> JsonObject:
    """A pod that its creator bound to dfw-0."""
    found = pod(name)
    found["spec"] |= {"nodeName": "dfw-0", **spec}
    found["spec"]["containers"][0] |= container or {}
    return found


async def waiting(stage: Stage, name: str) -> tuple[str, str]:
    state = (await stage.state(name))["state"]["waiting"]
    return state["reason"], state.get("message", "")


def test_a_status_says_which_generation_it_is_about() -> None:
    async def story(stage: Stage) -> None:
        await stage.pods.create(made("a"))
        await stage.wait(3)
        image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "example.com/app:2"}]
        for generation in (1, 2):
            status = (await stage.pod("a"))["status"]
            assert status["observedGeneration"] == generation
            ours = [each for each in status["conditions"] if each["type"] != "PodScheduled"]
            assert {each["observedGeneration"] for each in ours} == {generation}
            await stage.pods.patch("a", image, "default", type="json")
            await stage.wait(1)

    play(story)


@pytest.mark.parametrize("later", [False, True])
def test_a_pod_that_was_active_for_as_long_as_it_may_has_failed(later: bool) -> None:
    async def story(stage: Stage) -> None:
        limit: JsonObject = {} if later else {"activeDeadlineSeconds": 60}
        await stage.pods.create(made("a", None, **limit))
        await stage.wait(20)
        assert await stage.phase("a") == "Running"
        if later:
            await stage.pods.patch("a", {"spec": {"activeDeadlineSeconds": 60}}, "default")
        await stage.wait(45)
        status = (await stage.pod("a"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
        assert status["message"] == "Pod was active on the node longer than the specified deadline"
        ended = status["containerStatuses"][0]["state"]["terminated"]
        assert abs(parse_rfc3339(ended["finishedAt"]) - parse_rfc3339(status["startTime"]) - 60) <= 1
        assert not stage.really_running()

    play(story)


def test_a_container_waits_for_the_objects_that_its_variables_come_from() -> None:
    async def story(stage: Stage) -> None:
        key = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}
        secret = {"secretRef": {"name": "password"}}
        await stage.pods.create(made("a", {"env": [key], "envFrom": [secret]}))
        await stage.wait(30)
        assert await stage.phase("a") == "Pending"
        assert await waiting(stage, "a") == ("CreateContainerConfigError", 'secret "password" not found')
        data = {"b": base64.b64encode(b"c").decode()}
        await stage.user.resource(SECRETS).create(
            {"metadata": {"name": "password", "namespace": "default"}, "data": data}
        )
        await stage.wait(10)
        assert await waiting(stage, "a") == ("CreateContainerConfigError", 'configmap "settings" not found')
        maps = stage.user.resource(CONFIG_MAPS)
        await maps.create({"metadata": {"name": "settings", "namespace": "default"}})
        await stage.wait(10)
        missing = "couldn't find key a in ConfigMap default/settings"
        assert await waiting(stage, "a") == ("CreateContainerConfigError", missing)
        await maps.patch("settings", {"data": {"a": "b"}}, "default")
        await stage.wait(10)
        assert await stage.phase("a") == "Running"

    play(story)


def test_nothing_starts_before_the_files_of_its_volumes_are_there() -> None:
    async def story(stage: Stage) -> None:
        volumes = [{"name": "v", "configMap": {"name": "files"}}]
        mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        await stage.pods.create(made("a", mounts, volumes=volumes))
        await stage.wait(30)
        assert await stage.phase("a") == "Pending"
        assert not stage.really_running()
        await stage.user.resource(CONFIG_MAPS).create({"metadata": {"name": "files", "namespace": "default"}})
        await stage.wait(10)
        assert await stage.phase("a") == "Running"

    play(story)


def test_optional_volumes_and_variables_may_be_missing() -> None:
    async def story(stage: Stage) -> None:
        key = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "none", "key": "a", "optional": True}}}
        container = {
            "env": [key],
            "envFrom": [{"configMapRef": {"name": "none", "optional": True}}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
        volumes = [{"name": "v", "secret": {"secretName": "none", "optional": True}}]
        await stage.pods.create(made("a", container, volumes=volumes))
        await stage.wait(3)
        assert await stage.phase("a") == "Running"

    play(story)


def test_a_class_with_a_handler_that_a_node_does_not_have_is_refused_there() -> None:
    async def story(stage: Stage) -> None:
        await stage.user.resource(RUNTIME_CLASSES).create({"metadata": {"name": "odd"}, "handler": "kata"})
        await stage.wait(1)
        await stage.pods.create(made("a", runtimeClassName="odd"))
        await stage.pods.create(made("b", runtimeClassName="gvisor"))
        await stage.wait(3)
        status = (await stage.pod("a"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "RuntimeHandlerNotSupported")
        assert status["message"] == (
            'Pod was rejected: RuntimeClass "odd" needs the handler "kata", which this node does not have'
        )
        assert "containerStatuses" not in status
        assert await stage.phase("b") == "Running"

    play(story)


def test_an_address_that_comes_after_the_binding_is_shown() -> None:
    async def story(stage: Stage) -> None:
        await stage.pods.create(made("a"))
        await stage.wait(3)
        assert "podIP" not in (await stage.pod("a"))["status"]
        interfaces = encode_interfaces([AttachedInterface("eth0", "default/default", addresses=["10.128.0.2/20"])])
        patch = {"metadata": {"annotations": {ANNOTATION_INTERFACES: interfaces}}}
        await stage.world.reliable(SCHEDULER).resource(PODS).patch("a", patch, "default")
        await stage.wait(1)
        assert (await stage.pod("a"))["status"]["podIP"] == "10.128.0.2"

    play(story)
