"""One Instance and its Pod: created, lost, created again, rejected, and reported in the Instance's status."""

from __future__ import annotations

import pytest

from tarmac.api.compute.names import API_VERSION, INSTANCE_FINALIZER, LABEL_DEPLOYMENT_NAME, deployment_name
from tarmac.api.schema import JsonObject
from tarmac.api.status import Invalid, NotFound
from tarmac.client.targets.untyped import CONFIG_MAPS, EVENTS, VOLUME_CLAIMS
from tarmac.sim.nodes.settings import Behaviour
from tests.controllers.planet import NAMES, Planet, conditions, play, workload
from tests.controllers.test_deployments import with_disks

NAME = deployment_name("web", "all", "DFW") + "-0"


async def instance(planet: Planet) -> JsonObject:
    return await planet.instances.get(NAME, "default")


async def ready(planet: Planet) -> tuple[str, str]:
    """Return status and reason of the Instance's readiness."""
    found = conditions(await instance(planet))["Ready"]
    return found["status"], found["reason"]


async def told(planet: Planet) -> list[tuple[str, str]]:
    """The events of the Instance, in order."""
    events = await planet.all(planet.user.resource(EVENTS))
    return [(each["reason"], each["message"]) for each in events if each["involvedObject"]["kind"] == "Instance"]


def test_a_lost_pod_is_made_again_for_the_same_instance() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=1)
        await planet.ready(1)
        before, pod = await instance(planet), await planet.pods.get(NAME, "default")
        await planet.pods.delete(NAME, "default", grace=0)
        await planet.wait(1)
        await planet.ready(1)
        again = await planet.pods.get(NAME, "default")
        assert again["metadata"]["uid"] != pod["metadata"]["uid"]
        assert again["metadata"]["annotations"] == pod["metadata"]["annotations"], "with the same addresses"
        assert (await instance(planet))["metadata"]["uid"] == before["metadata"]["uid"]

    play(story)


def test_a_pod_that_was_driven_off_its_node_is_made_again_and_people_are_told() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=1)
        await planet.ready(1)
        evicted = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
        await planet.pods.patch(NAME, {"status": evicted}, "default", subresource="status")
        await planet.wait(3)
        await planet.ready(1)
        assert ("Failed", "Pod ended: The node was low on memory.") in await told(planet)

    play(story)


def test_an_instance_whose_node_refuses_each_pod_waits_longer_each_time_and_avoids_the_node() -> None:
    """A node may count differently from the scheduler, and reject the next pod like the last."""
    refused = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Pod was rejected: no device."}

    async def story(planet: Planet) -> None:
        seen: dict[str, JsonObject] = {}  # uid -> affinity
        said: set[str] = set()

        async def refuse() -> None:
            try:
                pod = await planet.pods.get(NAME, "default")
            except NotFound:
                return
            if "nodeName" in pod["spec"] and pod["metadata"]["uid"] not in seen:
                seen[pod["metadata"]["uid"]] = pod["spec"].get("affinity", {})
                await planet.pods.patch(NAME, {"status": refused}, "default", subresource="status")

        await planet.apply(replicas=1)
        await planet.wait(0.5)
        for _ in range(400):
            await planet.wait(0.1)
            await refuse()
            said.add(conditions(await instance(planet)).get("Ready", {}).get("reason", ""))
        first, *rest = seen.values()
        assert 3 <= len(rest) <= 6, f"{len(seen)} pods in forty seconds"
        elsewhere = {"key": "metadata.name", "operator": "NotIn", "values": ["dfw-0"]}
        preferred = [{"weight": 100, "preference": {"matchFields": [elsewhere]}}]
        avoiding = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        assert (first, rest) == ({}, [avoiding] * len(rest))
        assert "RefusedByNode" in said
        message = conditions(await instance(planet))["Ready"]["message"]
        assert "has ended its pod" in message
        assert "Pod was rejected: no device." in message

    play(story)


def test_people_are_told_where_an_instance_went_and_what_went_wrong_with_it() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=1, image="nowhere.invalid/app:1")
        await planet.wait(30)
        assert (await instance(planet))["status"]["restarts"] == 0
        scheduled, failed = await told(planet)
        assert scheduled == ("Scheduled", "Assigned to dfw-0 at dfw")
        assert failed[0] == "Failed"
        assert failed[1].startswith("ImageUnavailable: ")

    play(story)


def test_an_instance_that_is_deleted_stays_until_its_pod_is_gone() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=1)
        await planet.ready(1)
        uid = (await instance(planet))["metadata"]["uid"]
        await planet.instances.delete(NAME, "default")
        going = await instance(planet)
        assert (going["metadata"]["uid"], going["metadata"]["finalizers"]) == (uid, [INSTANCE_FINALIZER])
        await planet.wait(10)
        await planet.ready(1)
        assert (await instance(planet))["metadata"]["uid"] != uid

    play(story, Behaviour(stop=(3.0, 4.0)))


def test_probes_and_hooks_reach_the_pod_and_a_change_replaces_it() -> None:
    """Written, read, and patched; the rules stay."""

    async def story(planet: Planet) -> None:
        ready_at = {"httpGet": {"port": 80, "path": "/ready"}}
        hooks = {"preStop": {"sleep": {"seconds": 2}}}
        made = await planet.apply(replicas=1, container={"readinessProbe": ready_at, "lifecycle": hooks})
        (container,) = made["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"]
        assert (container["readinessProbe"], container["lifecycle"]) == (ready_at, hooks), "stored as written"
        await planet.ready(1)
        (running,) = (await planet.pods.get(NAME, "default"))["spec"]["containers"]
        assert running["lifecycle"] == hooks
        assert running["readinessProbe"]["httpGet"] == {"port": 80, "path": "/ready", "scheme": "HTTP"}
        where = "/spec/template/spec/runtime/sandbox"
        edits = [
            {"op": "add", "path": f"{where}/terminationGracePeriodSeconds", "value": 7},
            {"op": "add", "path": f"{where}/containers/0/workingDir", "value": "/srv"},
        ]
        await planet.workloads.patch("web", edits, "default", type="json")
        await planet.wait(10)
        await planet.ready(1)
        spec = (await planet.pods.get(NAME, "default"))["spec"]
        assert (spec["terminationGracePeriodSeconds"], spec["containers"][0]["workingDir"]) == (7, "/srv")
        bad = [{"op": "add", "path": f"{where}/terminationGracePeriodSeconds", "value": 1}]
        with pytest.raises(Invalid, match="less than terminationGracePeriodSeconds"):
            await planet.workloads.patch("web", bad, "default", type="json")

    play(story)


def test_a_missing_source_is_named_and_waited_for() -> None:
    async def story(planet: Planet) -> None:
        source = {"configMapKeyRef": {"name": "settings", "key": "mode"}}
        planet.binding = False
        await planet.apply(replicas=1, container={"env": [{"name": "MODE", "valueFrom": source}]})
        await planet.wait(3)
        assert await ready(planet) == ("False", "SourceNotFound")
        assert "ConfigMap settings not found" in conditions(await instance(planet))["Ready"]["message"]
        metadata = {"name": "settings", "namespace": "default"}
        await planet.user.resource(CONFIG_MAPS).create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"mode": "a"}}
        )
        await planet.wait(1)
        assert (await ready(planet))[1] != "SourceNotFound"
        planet.binding = True
        await planet.ready(1)

    play(story)


def test_an_image_that_cannot_be_pulled_and_an_instance_that_crashes_are_told_apart() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=1, image="nowhere.invalid/app:1", rollout={"onFailure": "Hold"})
        await planet.wait(10)
        assert await ready(planet) == ("False", "ImageUnavailable")
        template = workload()["spec"]["template"]
        template["metadata"]["annotations"] = {"sim.tarmac/crash-after": "2s"}
        await planet.edit(template=template)
        await planet.wait(120)
        seen: set[str] = set()
        for _ in range(60):
            await planet.wait(2)
            seen.add((await ready(planet))[1])
        assert "InstanceCrashing" in seen
        assert (await instance(planet))["status"]["restarts"] > 2

    play(story)


def test_a_pod_of_somebody_else_is_left_alone_and_named() -> None:
    async def story(planet: Planet) -> None:
        metadata = {"name": NAME, "namespace": "default"}
        container = {"name": "x", "image": "example.com/other:1"}
        await planet.wait(1)
        await planet.pods.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
        )
        await planet.apply(replicas=1)
        await planet.wait(10)
        assert await ready(planet) == ("False", "NameTaken")
        await planet.pods.delete(NAME, "default", grace=0)
        await planet.ready(1)

    play(story)


def test_a_disk_of_somebody_else_is_not_used() -> None:
    async def story(planet: Planet) -> None:
        claims = planet.user.resource(VOLUME_CLAIMS)
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        metadata = {"name": f"{NAME}-data", "namespace": "default"}
        await claims.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
        await planet.apply(replicas=1, **with_disks())
        await planet.wait(10)
        assert await ready(planet) == ("False", "NameTaken")
        assert await planet.all(planet.pods) == []
        await claims.delete(f"{NAME}-data", "default")
        await planet.ready(1)

    play(story)


def test_a_disk_that_goes_with_an_earlier_deployment_is_not_used_unless_it_is_left_behind() -> None:
    async def story(planet: Planet) -> None:
        claims, deployment = planet.user.resource(VOLUME_CLAIMS), NAME.removesuffix("-0")
        await planet.stop()
        planet.start(NAMES.replace("garbage,", ""))  # without the mark of deletion
        metadata = {
            "name": f"{NAME}-data",
            "namespace": "default",
            "labels": {LABEL_DEPLOYMENT_NAME: deployment},
            "ownerReferences": [
                {"apiVersion": API_VERSION, "kind": "WorkloadDeployment", "name": deployment, "uid": "earlier"}
            ],
        }
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await claims.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
        await planet.apply(replicas=1, **with_disks())
        await planet.wait(10)
        assert await ready(planet) == ("False", "NameBeingDeleted")
        assert await planet.all(planet.pods) == []
        await claims.patch(f"{NAME}-data", {"metadata": {"ownerReferences": None}}, "default")
        await planet.ready(1)

    play(story)


def test_a_disk_that_is_deleted_while_the_pod_waits_for_a_node_is_made_again() -> None:
    async def story(planet: Planet) -> None:
        claims = planet.user.resource(VOLUME_CLAIMS)
        planet.binding = False
        await planet.apply(replicas=1, **with_disks())
        await planet.wait(10)
        before = (await claims.get(f"{NAME}-data", "default"))["metadata"]["uid"]
        await claims.delete(f"{NAME}-data", "default")
        await planet.wait(10)
        assert (await claims.get(f"{NAME}-data", "default"))["metadata"]["uid"] != before
        planet.binding = True
        await planet.ready(1)

    play(story)


def test_a_rejected_pod_is_reported_in_the_ready_condition() -> None:
    async def story(planet: Planet) -> None:
        privileged = {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}
        await planet.apply(replicas=1, container=privileged)
        await planet.wait(10)
        assert await ready(planet) == ("False", "ConfigurationError")
        assert "SYS_ADMIN" in conditions(await instance(planet))["Ready"]["message"]

    play(story)


def test_an_instance_that_cannot_be_placed_says_what_the_scheduler_said() -> None:
    async def story(planet: Planet) -> None:
        planet.binding = False
        await planet.apply(replicas=1)
        await planet.wait(3)
        assert await ready(planet) == ("False", "PendingProgramming")
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes: 2 full"}
        await planet.pods.patch(NAME, {"status": {"conditions": [said]}}, "default", subresource="status")
        await planet.wait(3)
        assert await ready(planet) == ("False", "InsufficientCapacity")
        assert conditions(await planet.workload())["Available"]["message"].endswith("0/2 nodes: 2 full")

    play(story)
