"""A pod bound to the node: its sandbox, its containers, and its status in the API."""

from __future__ import annotations

import base64
import json

from tarmac.agent.pods.manager import RUNTIME_CLASSES
from tarmac.agent.pods.predicates import handler_refusal
from tarmac.runtimes.fake import FakeProgram, RegistryImage
from tarmac.runtimes.interface import ExecResult, ImageMismatch, RuntimeRefused
from tests.agent.pods.machine import IMAGE, Machine, condition, container, container_status, play


def test_a_bound_pod_runs_and_says_so() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        status = await machine.phase("Running")
        main = container_status(status)
        assert main["ready"] is True
        assert main["started"] is True
        assert main["restartCount"] == 0
        assert main["containerID"] == f"fake://{await machine.id()}"
        assert "running" in main["state"]
        assert status["hostIP"] == "192.0.2.1"
        assert status["podIP"] == "10.0.0.1"
        assert status["podIPs"] == [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]
        assert status["startTime"]
        assert status["qosClass"] == "BestEffort"
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"):
            assert condition(status, kind)["status"] == "True", kind
            assert condition(status, kind)["observedGeneration"] == 1
        assert [reason for reason, _ in await machine.events()] == ["Pulled", "Created", "Started"]

    play(story)


def test_init_containers_run_one_after_the_other_before_the_others() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs |= {"first": FakeProgram(runs_for=5), "second": FakeProgram(runs_for=5)}
        await machine.create(initContainers=[container("first"), container("second")])
        status = await machine.phase("Pending")
        await machine.wait(2)
        status = await machine.status()
        assert container_status(status)["state"]["waiting"]["reason"] == "PodInitializing"
        assert condition(status, "Initialized")["message"] == "containers with incomplete status: [first second]"
        assert await machine.running() == ["first"]
        await machine.wait(5)
        assert await machine.running() == ["second"]
        status = await machine.phase("Running")
        assert await machine.running() == ["main"]
        first = container_status(status, "first")
        assert first["ready"] is True
        assert first["state"]["terminated"]["reason"] == "Completed"
        assert condition(status, "Initialized")["status"] == "True"

    play(story)


def test_a_failing_init_container_fails_a_pod_that_is_never_restarted() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["first"] = FakeProgram(runs_for=1, exit_code=3)
        await machine.create(initContainers=[container("first")], restartPolicy="Never")
        status = await machine.phase("Failed")
        assert container_status(status, "first")["state"]["terminated"]["exitCode"] == 3
        assert condition(status, "Ready")["reason"] == "PodFailed"
        assert not machine.cgroups.made

    play(story)


def test_a_failing_init_container_is_tried_again() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["first"] = FakeProgram(runs_for=1, exit_code=3)
        await machine.create(initContainers=[container("first")])
        await machine.waits("CrashLoopBackOff", container="first")
        machine.runtime.programs["first"] = FakeProgram(runs_for=1)
        status = await machine.phase("Running")
        assert container_status(status, "first")["restartCount"] == 2

    play(story)


def test_a_sidecar_starts_before_the_next_and_stays() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["second"] = FakeProgram(runs_for=3)
        sidecar = {**container("sidecar"), "restartPolicy": "Always"}
        await machine.create(initContainers=[sidecar, container("second")])
        await machine.wait(1)
        assert await machine.running() == ["second", "sidecar"]
        await machine.phase("Running")
        assert await machine.running() == ["main", "sidecar"]
        machine.runtime.end_container(await machine.id("sidecar"), 1)
        await machine.wait(1)
        assert await machine.running() == ["main", "sidecar"]
        status = await machine.status()
        assert container_status(status, "sidecar")["restartCount"] == 1
        assert status["phase"] == "Running"

    play(story)


def test_a_pod_with_a_sidecar_completes_when_its_containers_have() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(runs_for=3)
        sidecar = {**container("sidecar"), "restartPolicy": "Always"}
        await machine.create(initContainers=[sidecar], restartPolicy="Never")
        status = await machine.phase("Succeeded")
        assert "terminated" in container_status(status, "sidecar")["state"]
        assert condition(status, "Ready")["reason"] == "PodCompleted"

    play(story)


def test_an_image_is_pulled_and_told_about() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.registry["example.com/other:1"] = RegistryImage(size=77, takes=2.5)
        await machine.create(container={"image": "example.com/other:1"})
        await machine.phase("Running")
        assert (await machine.events())[:2] == [
            ("Pulling", 'Pulling image "example.com/other:1"'),
            (
                "Pulled",
                'Successfully pulled image "example.com/other:1" in 2.5s (2.5s including waiting). '
                "Image size: 77 bytes.",
            ),
        ]

    play(story)


def test_an_image_that_cannot_be_pulled_is_tried_later_and_later() -> None:
    async def story(machine: Machine) -> None:
        await machine.create(container={"image": "example.com/none:1"})
        error = 'failed to pull and unpack image "example.com/none:1": not found'
        assert (await machine.waits("ErrImagePull"))["message"] == error
        waiting = await machine.waits("ImagePullBackOff")
        assert waiting["message"] == f'Back-off pulling image "example.com/none:1": ErrImagePull: {error}'
        assert (await machine.status())["phase"] == "Pending"
        await machine.wait(60)
        assert 3 <= machine.calls("pull") <= 4
        assert ("Failed", "Error: ImagePullBackOff") in await machine.events()
        machine.runtime.registry["example.com/none:1"] = RegistryImage()
        await machine.phase("Running", seconds=120)

    play(story)


def test_an_image_that_is_not_what_it_is_said_to_be_is_told_as_that_while_it_is_tried_again() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.trouble("pull", ImageMismatch("the qcow2 image has a backing file"), times=9)
        await machine.create(container={"image": "example.com/other:1"})
        waiting = await machine.waits("ImageRefused")
        assert waiting["message"] == "the qcow2 image has a backing file"
        await machine.wait(8)
        again = container_status(await machine.status())["state"]["waiting"]
        assert again["reason"] == "ImageRefused"
        assert again["message"].startswith('Back-off pulling image "example.com/other:1": ImageRefused: the qcow2')

    play(story)


def test_pull_policies_are_kept() -> None:
    async def story(machine: Machine) -> None:
        await machine.create("never", container={"image": "example.com/none:1", "imagePullPolicy": "Never"})
        waiting = await machine.waits("ErrImageNeverPull", "never")
        assert waiting["message"] == 'Container image "example.com/none:1" is not present with pull policy of Never'
        machine.runtime.registry[IMAGE] = RegistryImage()
        await machine.create("always", container={"imagePullPolicy": "Always"})
        await machine.phase("Running", "always")
        assert machine.calls("pull") == 1

    play(story)


def test_pull_secrets_open_a_registry() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.registry["example.com/private:1"] = RegistryImage(username="me", password="open sesame")
        auths = {"auths": {"example.com": {"auth": base64.b64encode(b"me:open sesame").decode()}}}
        data = {".dockerconfigjson": base64.b64encode(json.dumps(auths).encode()).decode()}
        machine.sources.secrets["default/registry"] = {"data": data}
        await machine.create(container={"image": "example.com/private:1"}, imagePullSecrets=[{"name": "registry"}])
        await machine.phase("Running")

    play(story)


def test_a_missing_config_map_holds_a_container_up_and_no_longer() -> None:
    async def story(machine: Machine) -> None:
        reference = {"configMapKeyRef": {"name": "settings", "key": "colour"}}
        await machine.create(container={"env": [{"name": "COLOUR", "valueFrom": reference}]})
        assert (await machine.waits("CreateContainerConfigError"))["message"] == 'configmap "settings" not found'
        machine.sources.config_maps["default/settings"] = {"data": {"size": "3"}}
        await machine.wait(10)
        waiting = await machine.waits("CreateContainerConfigError")
        assert waiting["message"] == "couldn't find key colour in ConfigMap default/settings"
        machine.sources.config_maps["default/settings"] = {"data": {"colour": "red"}}
        await machine.phase("Running")
        assert ("Failed", 'Error: configmap "settings" not found') in await machine.events()

    play(story)


def test_a_start_that_takes_its_time_is_told_when_it_has_begun() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.trouble("run_sandbox", None, delay=5)
        await machine.create()
        await machine.wait(0.3)
        assert "startTime" not in await machine.status()
        await machine.wait(0.7)
        status = await machine.status()
        assert container_status(status)["state"]["waiting"]["reason"] == "ContainerCreating"
        running = await machine.phase("Running")
        assert running["startTime"] == status["startTime"]

    play(story)


def test_a_volume_that_is_not_there_yet_holds_the_pod_up() -> None:
    async def story(machine: Machine) -> None:
        machine.volumes.missing["data"] = 'configmap "data" not found'
        await machine.create(volumes=[{"name": "data", "configMap": {"name": "data"}}])
        await machine.wait(10)
        assert container_status(await machine.status())["state"]["waiting"]["reason"] == "ContainerCreating"
        message = 'MountVolume.SetUp failed for volume "data" : configmap "data" not found'
        assert ("FailedMount", message) in await machine.events()
        machine.volumes.missing.clear()
        await machine.phase("Running")

    play(story)


def test_the_random_id_of_a_container_is_its_name_in_what_is_told() -> None:
    """So events about one problem are counted together, however often it is retried."""

    async def story(machine: Machine) -> None:
        digest = "sha256:" + "ab" * 32
        for number in range(3):
            text = f'failed to generate container "{number:064x}" spec: no class, image {digest}'
            machine.runtime.trouble("create_container", RuntimeRefused(text))
            if not number:
                await machine.create()
            await machine.wait(5.5)
        told = [message for reason, message in await machine.events() if reason == "Failed"]
        assert told == [f'Error: failed to generate container "main" spec: no class, image {digest}']

    play(story)


def test_a_sandbox_that_cannot_be_made_is_tried_again() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.trouble("run_sandbox", RuntimeRefused("no address left"), times=2)
        await machine.create()
        await machine.phase("Running")
        assert ("FailedCreatePodSandBox", "Failed to create pod sandbox: no address left") in await machine.events()

    play(story)


def test_without_a_network_that_is_what_the_event_says() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.network_ready = False
        machine.runtime.trouble("run_sandbox", RuntimeRefused("cni plugin not initialized"), times=1)
        await machine.create()
        await machine.phase("Running")
        assert "NetworkNotReady" in [reason for reason, _ in await machine.events()]

    play(story)


def test_a_post_start_hook_delays_the_next_container() -> None:
    async def story(machine: Machine) -> None:
        hook = {"postStart": {"sleep": {"seconds": 5}}}
        await machine.create(containers=[{**container("a"), "lifecycle": hook}, container("b")])
        await machine.wait(3)
        assert await machine.running() == ["a"]
        await machine.wait(3)
        assert await machine.running() == ["a", "b"]

    play(story)


def test_a_container_whose_first_hook_fails_is_ended() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(exec=lambda command: ExecResult(b"secret", b"", 1))
        await machine.create(container={"lifecycle": {"postStart": {"exec": {"command": ["false"]}}}})
        await machine.wait(5)
        assert ("FailedPostStartHook", "PostStartHook failed") in await machine.events()
        assert not any("secret" in message for _, message in await machine.events())
        status = container_status(await machine.status())
        assert status["restartCount"] >= 1 or "waiting" in status["state"]

    play(story)


def test_a_pod_that_does_not_fit_is_refused() -> None:
    async def story(machine: Machine) -> None:
        await machine.create("one", container={"resources": {"requests": {"cpu": "3"}}})
        await machine.phase("Running", "one")
        await machine.create("two", container={"resources": {"requests": {"cpu": "2"}}})
        status = await machine.phase("Failed", "two")
        assert status["reason"] == "OutOfcpu"
        message = "Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"
        assert status["message"] == f"Pod was rejected: {message}"
        assert ("OutOfcpu", message) in await machine.events("two")
        assert "containerStatuses" not in status
        assert await machine.running() == ["main"]
        await machine.restart()
        await machine.wait(1)
        assert await machine.status("two") == status, "a new agent writes no other status"

    play(story)


def test_a_pod_for_another_sort_of_node_is_refused() -> None:
    async def story(machine: Machine) -> None:
        await machine.create("far", nodeSelector={"disk": "ssd"})
        assert (await machine.phase("Failed", "far"))["reason"] == "NodeAffinity"
        await machine.allow_everything()
        await machine.create("sys", securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]})
        assert (await machine.phase("Failed", "sys"))["reason"] == "SysctlForbidden"

    play(story)


def test_strict_groups_are_for_nodes_whose_runtime_knows_them() -> None:
    async def story(machine: Machine) -> None:
        strict = {"supplementalGroups": [7], "supplementalGroupsPolicy": "Strict"}
        await machine.create("early", securityContext=strict)
        assert (await machine.phase("Failed", "early"))["reason"] == "SupplementalGroupsPolicyNotSupported"
        machine.node["status"]["features"] = {"supplementalGroupsPolicy": True}
        await machine.create("late", securityContext=strict)
        await machine.phase("Running", "late")

    play(story)


def test_user_namespaces_are_refused_not_ignored() -> None:
    async def story(machine: Machine) -> None:
        await machine.create("apart", hostUsers=False)
        status = await machine.phase("Failed", "apart")
        assert status["reason"] == "UserNamespacesNotSupported"
        assert "Leave hostUsers out" in status["message"]

    play(story)


def test_a_runtime_class_chooses_the_handler() -> None:
    async def story(machine: Machine) -> None:
        classes = machine.user.resource(RUNTIME_CLASSES)
        for name in ("own", "strange"):
            handler = "gvisor" if name == "own" else "strange"
            made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
            await classes.create({**made, "handler": handler})
        await machine.wait(1)
        await machine.create("own", runtimeClassName="own")
        await machine.phase("Running", "own")
        assert [each.handler for each in await machine.runtime.sandboxes()] == ["gvisor"]
        await machine.create("strange", runtimeClassName="strange")
        assert (await machine.phase("Failed", "strange"))["reason"] == "RuntimeHandlerNotSupported"

    play(story)


def test_nobody_is_refused_for_good_while_the_runtime_has_not_answered() -> None:
    assert handler_refusal("gvisor", "gvisor", frozenset) is None
    assert handler_refusal("gvisor", "gvisor", lambda: frozenset(("", "runc"))) is not None
