"""Explanations of container ends, images, nodes and metrics name the cause and a change that helps."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.explanations import Explanation
from tarmac.api.compute.scaling import ScaleSettings
from tarmac.api.declare import decode
from tarmac.api.schema import JsonObject
from tarmac.decide import reasons
from tarmac.decide.explain import EXPLAINERS
from tarmac.decide.scaling import ExternalReading, History, InstanceUse, Reading, ResourceReading, scale
from tarmac.decide.snapshot.snapshot import CLAIMS, CONFIG_MAPS, PODS, PRIORITY_CLASSES, SECRETS, WORKLOADS

from .world import Scene, workload


def pod_with(state: JsonObject, last: JsonObject | None = None, limit: str = "") -> Explanation:
    scene = Scene()
    scene.place("LHR", nodes=1)
    scene.pod("bad", node="lhr-0")
    pod = PODS.get(scene.world, "default/bad") or {}
    if limit:
        pod["spec"]["containers"][0]["resources"]["limits"] = {"memory": limit}
    container = {"name": "main", "state": state, "lastState": last or {}, "restartCount": 3}
    scene.put(
        PODS.resource, {**pod, "status": {"phase": "Running", "podIP": "10.0.0.2", "containerStatuses": [container]}}
    )
    found = EXPLAINERS[PODS.resource](scene.world, "default/bad")
    assert found is not None
    return found


def crashing(**terminated: Any) -> tuple[JsonObject, JsonObject]:
    back_off = {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container=main pod=bad"}
    return {"waiting": back_off}, {"terminated": terminated}


def test_a_crash_tells_its_exit_code_and_the_last_lines_of_the_log() -> None:
    log = "starting\nlistening\nreading /etc/app.toml\npanic: no such key\x1b[2J\n"
    found = pod_with(*crashing(reason="Error", exitCode=3, message=log))
    last = "listening / reading /etc/app.toml / panic: no such key?[2J"
    assert found.sentence.endswith(f"container main keeps crashing: exit code 3; last lines: {last}.")
    assert "kubectl logs --previous" in found.change


@pytest.mark.parametrize(
    ("code", "words"),
    [(139, "SIGSEGV"), (143, "SIGTERM"), (137, "SIGKILL"), (127, "command not found"), (126, "not executable")],
)
def test_a_crash_tells_the_signal_or_what_the_shell_meant(code: int, words: str) -> None:
    assert f"exit code {code}, {words}" in pod_with(*crashing(reason="Error", exitCode=code)).sentence


def test_a_program_that_ends_well_is_to_stay() -> None:
    assert "foreground" in pod_with(*crashing(reason="Completed", exitCode=0)).change


def test_an_end_before_the_next_start_tells_the_same() -> None:
    found = pod_with({"terminated": {"reason": "Error", "exitCode": 2, "message": "usage: app FILE"}})
    assert found.sentence.endswith("main ended: exit code 2; last lines: usage: app FILE.")


BAD_COMMAND = 'failed to create containerd task: runc create failed: exec: "srve": executable file not found in $PATH'

BAD_COMMAND_OF_GVISOR = 'OCI runtime start failed: creating process: failed to load "srve": no such file or directory'


@pytest.mark.parametrize(
    ("state", "last"),
    [
        ({"waiting": {"reason": "RunContainerError", "message": BAD_COMMAND}}, None),
        ({"terminated": {"reason": "StartError", "exitCode": 128, "message": BAD_COMMAND}}, None),
        crashing(reason="StartError", exitCode=128, message=BAD_COMMAND),
        crashing(
            reason="StartError", exitCode=128, message='failed to load "srve": no such file or directory'
        ),  # gVisor
    ],
)
def test_a_bad_command_is_one_at_every_stage(state: JsonObject, last: JsonObject | None) -> None:
    found = pod_with(state, last)
    assert found.verdicts[-1].reason == reasons.CONFIGURATION_ERROR
    assert '"srve"' in found.sentence
    assert found.change == "Correct the container's command, or name an image that has it."


def test_a_missing_source_still_names_what_to_create() -> None:
    message = 'configmap "settings" not found'
    found = pod_with({"waiting": {"reason": "CreateContainerConfigError", "message": message}})
    assert found.verdicts[-1].reason == reasons.SOURCE_NOT_FOUND


@pytest.mark.parametrize(
    ("state", "last"),
    [({"terminated": {"reason": "OOMKilled", "exitCode": 137}}, None), crashing(reason="OOMKilled", exitCode=137)],
)
def test_out_of_memory_tells_how_much_there_was(state: JsonObject, last: JsonObject | None) -> None:
    found = pod_with(state, last, limit="64Mi")
    assert found.sentence.endswith("main used more than its 64Mi of memory (exit code 137, SIGKILL).")
    assert found.change.startswith("Give it more than 64Mi: ")


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ('dial tcp: lookup registry.invalid on 10.0.0.2:53: no such host', "registry's name"),
        ("dial tcp 10.0.0.9:5000: connect: connection refused", "reachable from the node"),
        ("tls: failed to verify certificate: x509: certificate signed by unknown authority", "trust the registry"),
        (
            'the service account "b/default" may not pull from a/app: '
            'it needs the verb pull on repositories.images.tarmac.dev in the namespace "a"',
            "Bind the ClusterRole tarmac:image-puller to that service account in the namespace a.",
        ),
        ("pull access denied, repository does not exist or may require authorization", "imagePullSecrets"),
        ("unexpected status from HEAD request: 401 Unauthorized", "imagePullSecrets"),
        ('failed to resolve reference "docker.io/acme/web:9": docker.io/acme/web:9: not found', "tag that exist"),
        ("toomanyrequests: 429 Too Many Requests", "limits how much"),
        ("no match for platform in manifest", "platform"),
        ('Container image "a" is not present with pull policy of Never', "Load the image"),
        ("something nobody has seen before", "Name an image that exists, or give"),
    ],
)  # fmt: skip
def test_a_refused_image_gets_the_change_that_its_cause_needs(message: str, change: str) -> None:
    said = f'Back-off pulling image "x": ErrImagePull: {message}'
    assert change in pod_with({"waiting": {"reason": "ImagePullBackOff", "message": said}}).change


def test_a_cordon_is_to_be_lifted() -> None:
    scene = Scene()
    scene.place("LHR", nodes=0)
    for name in ("lhr-0", "lhr-1"):
        cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        scene.node(name, "lhr", unschedulable=True, taints=[cordoned])
    deployment = scene.deploy(workload("LHR", replicas=1))["LHR"]
    scene.instance(deployment, 0, reason="Unschedulable", ready=False)
    found = EXPLAINERS[WORKLOADS.resource](scene.world, "default/web")
    assert found is not None
    assert "2 cordoned" in found.sentence
    assert found.change == "Uncordon lhr-0."


def external(**target: Any) -> JsonObject:
    return {"type": "External", "external": {"metric": {"name": "queue_depth"}, "target": target}}


@pytest.mark.parametrize(
    ("metric", "reading", "measured"),
    [
        (
            external(averageValue="50"),
            ExternalReading([900_000], 2),
            "queue_depth is 900 in all, 50 for each instance is wanted",
        ),
        (external(value="100"), ExternalReading([900_000], 2), "queue_depth is 900 in all, 100 is wanted"),
        (
            {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 60}}},
            ResourceReading([InstanceUse(1700, 1000), InstanceUse(1900, 1000)]),
            "cpu is at 180% of what is requested, 60% is wanted",
        ),
        (
            {"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "1Gi"}}},
            ResourceReading([InstanceUse(2**31 * 1000, 0), InstanceUse(2**32 * 1000, 0)]),
            "memory is at 3Gi for each instance, 1Gi is wanted",
        ),
    ],
)  # fmt: skip
def test_a_held_number_tells_what_the_metric_is_and_should_be(
    metric: JsonObject, reading: Reading, measured: str
) -> None:
    settings = decode(ScaleSettings, {"minReplicas": 1, "maxReplicas": 3, "metrics": [metric]})
    outcome = scale(settings, [reading], 2, History(), 1000.0)
    assert outcome.refusals[0].reason == reasons.TOO_MANY_REPLICAS
    assert outcome.refusals[0].message.endswith(f"maxReplicas is 3 ({measured}).")


@pytest.mark.parametrize(
    ("condition", "change"),
    [
        ("disk", "Free disk space on lhr-0: remove files, images or pods that are not needed."),
        ("memory", "Free memory on lhr-0: scale down its pods."),
        ("pid", "End processes on lhr-0: scale down its pods."),
    ],
)
def test_pressure_on_a_node_asks_to_free_resources_not_to_tolerate(condition: str, change: str) -> None:
    scene = Scene()
    scene.place("LHR", nodes=0)
    scene.node("lhr-0", "lhr", taints=[{"key": f"node.kubernetes.io/{condition}-pressure", "effect": "NoSchedule"}])
    scene.pod("web")
    found = EXPLAINERS[PODS.resource](scene.world, "default/web")
    assert found is not None
    assert f"{condition}-pressure" in found.sentence
    assert found.change == change


def test_a_pressed_node_with_a_taint_of_somebody_else_says_both() -> None:
    scene = Scene()
    scene.place("LHR", nodes=0)
    pressed = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
    scene.node("lhr-0", "lhr", taints=[pressed, {"key": "dedicated", "value": "db", "effect": "NoSchedule"}])
    scene.pod("web")
    found = EXPLAINERS[PODS.resource](scene.world, "default/web")
    assert found is not None
    assert found.change.startswith("Tolerate dedicated=db:NoSchedule, or remove it from lhr-0 and free disk space on")


VOLUMES: list[JsonObject] = [
    {"name": "a", "configMap": {"name": "settings"}},
    {"name": "b", "secret": {"secretName": "key"}},
    {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "d", "projected": {"sources": [{"configMap": {"name": "settings"}}, {"secret": {"name": "cert"}}]}},
    {"name": "e", "configMap": {"name": "perhaps", "optional": True}},
    {"name": "f", "emptyDir": {}},
]


def being_made(scene: Scene) -> Explanation:
    scene.place("LHR", nodes=1)
    scene.pod("web", node="lhr-0", volumes=VOLUMES)
    found = EXPLAINERS[PODS.resource](scene.world, "default/web")
    assert found is not None
    return found


def named(name: str) -> JsonObject:
    return {"metadata": {"name": name, "namespace": "default"}}


def test_a_pod_whose_volumes_have_no_sources_names_them() -> None:
    scene = Scene()
    scene.put(CONFIG_MAPS.resource, named("other"))
    scene.put(SECRETS.resource, named("cert"))
    scene.put(CLAIMS.resource, named("other"))
    found = being_made(scene)
    assert found.sentence.endswith("ConfigMap settings and Secret key and PersistentVolumeClaim data not found.")
    assert (found.verdicts[-1].answer, found.verdicts[-1].reason) == ("No", reasons.SOURCE_NOT_FOUND)
    assert found.change == "Create ConfigMap settings and Secret key and PersistentVolumeClaim data."


def test_of_sources_that_were_not_looked_at_nothing_is_said() -> None:
    assert being_made(Scene()).verdicts[-1].reason == reasons.PROGRAMMING_IN_PROGRESS


def test_a_pod_with_all_its_sources_is_being_made() -> None:
    scene = Scene()
    scene.put(CONFIG_MAPS.resource, named("settings"))
    for name in ("key", "cert"):
        scene.put(SECRETS.resource, named(name))
    scene.put(CLAIMS.resource, named("data"))
    assert being_made(scene).verdicts[-1].reason == reasons.PROGRAMMING_IN_PROGRESS


def test_a_priority_class_that_is_gone_is_told() -> None:
    scene = Scene()
    scene.place("LHR", nodes=1)
    scene.put(PRIORITY_CLASSES.resource, {"metadata": {"name": "gold"}, "value": 7})
    manifest = workload("LHR")
    manifest["spec"]["template"]["spec"]["priorityClassName"] = "gold"
    scene.deploy(manifest)
    assert all(line.reason != reasons.PRIORITY_CLASS_NOT_FOUND for line in why_web(scene).verdicts)
    scene.remove(PRIORITY_CLASSES.resource, "gold")
    found = why_web(scene)
    assert "PriorityClass gold does not exist" in found.sentence
    assert found.change == "Create PriorityClass gold, or name another in priorityClassName."


def why_web(scene: Scene) -> Explanation:
    found = EXPLAINERS[WORKLOADS.resource](scene.world, "default/web")
    assert found is not None
    return found
