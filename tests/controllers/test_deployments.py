"""The instances of one city: order, rollout, scale, gates, disks, restarts of the controllers."""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.client.targets.untyped import CONTROLLER_REVISIONS, RESOURCE_QUOTAS, VOLUME_CLAIMS
from tarmac.sim.nodes.settings import Behaviour
from tests.controllers.planet import Planet, conditions, play, workload

BROKEN = "nowhere.invalid/app:1"


def template(**changes: Any) -> JsonObject:
    return workload(**changes)["spec"]["template"]


async def images(planet: Planet) -> list[str]:
    pods = await planet.all(planet.pods)
    return sorted(pod["spec"]["containers"][0]["image"].partition("app:")[2] for pod in pods)


def test_instances_start_one_after_the_other_unless_parallel() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=3)
        most = 0
        for _ in range(100):
            await planet.wait(0.1)
            waiting = [each for each in await planet.all(planet.instances) if not _is_ready(each)]
            most = max(most, len(waiting))
        assert most == 1
        await planet.ready(3)
        await planet.apply("all-at-once", replicas=3, policy="Parallel")
        await planet.wait(0.5)
        assert (
            len([each for each in await planet.all(planet.instances) if "all-at-once" in each["metadata"]["name"]]) == 3
        )

    play(story, Behaviour(start=(1.0, 1.5)))


def test_a_new_template_replaces_one_instance_at_a_time_highest_first() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=3)
        await planet.ready(3)
        await planet.edit(template=template(image="example.com/app:2"))
        seen: list[list[str]] = []
        fewest = 3
        for _ in range(200):
            await planet.wait(0.1)
            status = (await planet.all(planet.deployments))[0]["status"]
            fewest = min(fewest, status.get("readyReplicas", 0))
            names = [
                each["metadata"]["name"][-1] for each in await planet.all(planet.pods) if "app:2" in str(each["spec"])
            ]
            if names and names not in seen:
                seen.append(names)
        await planet.ready(3)
        assert seen == [["2"], ["1", "2"], ["0", "1", "2"]]
        assert fewest == 2
        assert (await planet.workload())["status"]["updatedReplicas"] == 3

    play(story)


def test_a_newer_template_supersedes_one_that_never_becomes_ready() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=3)
        await planet.ready(3)
        await planet.edit(template=template(image=BROKEN))
        await planet.wait(20)
        status = (await planet.workload())["status"]
        assert status["readyReplicas"] == 2, "the broken revision takes no more than one"
        assert status["summary"]["reason"] == "ImageUnavailable"
        await planet.edit(template=template(image="example.com/app:3"))
        await planet.ready(3)
        assert await images(planet) == ["3", "3", "3"]

    play(story)


def test_the_history_of_templates_is_kept_and_bounded() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=1)
        await planet.wait(1)
        for number in range(2, 24):
            await planet.edit(template=template(image=f"example.com/app:{number}"))
            await planet.wait(1)
        revisions = (await planet.workload())["status"]["revisions"]
        assert [each["number"] for each in revisions] == list(range(4, 24))
        assert len(str(revisions)) < 4_000
        kept = await planet.all(planet.user.resource(CONTROLLER_REVISIONS))
        assert {each["metadata"]["name"] for each in kept} == {each["template"] for each in revisions}

    play(story)


def test_surge_brings_extra_instances_first_and_takes_them_last() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=2, rollout={"maxUnavailable": 0, "maxSurge": 1})
        await planet.ready(2)
        await planet.edit(template=template(image="example.com/app:2"))
        fewest, most = 2, 0
        for _ in range(200):
            await planet.wait(0.1)
            status = (await planet.all(planet.deployments))[0]["status"]
            fewest = min(fewest, status.get("readyReplicas", 0))
            most = max(most, status["replicas"])
        await planet.ready(2)
        assert (fewest, most) == (2, 3)
        assert await images(planet) == ["2", "2"]

    play(story)


def test_paused_nothing_is_replaced_or_scaled() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=2)
        await planet.ready(2)
        await planet.edit(paused=True, template=template(image="example.com/app:2"))
        await planet.wait(30)
        assert await images(planet) == ["1", "1"]
        assert (await planet.workload())["status"]["summary"]["status"] == "Paused"
        await planet.edit(paused=False)
        await planet.ready(2)
        assert await images(planet) == ["2", "2"]

    play(story)


def test_scaled_down_the_highest_go_and_their_disks_with_them_unless_retained() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=3, **with_disks())
        await planet.ready(3)
        claims = planet.user.resource(VOLUME_CLAIMS)
        assert len(await planet.all(claims)) == 6
        first = (await planet.all(claims))[0]
        assert first["spec"]["resources"]["requests"] == {"storage": "10Gi"}
        assert first["spec"]["volumeMode"] == "Filesystem"
        await planet.edit(placements=workload(replicas=1)["spec"]["placements"])
        await planet.ready(1)
        await planet.wait(5)
        left = sorted(each["metadata"]["name"].split("-", 3)[3] for each in await planet.all(claims))
        assert left == ["0-data", "0-kept", "1-kept", "2-kept"]

    play(story)


def test_a_disk_lives_through_the_replacement_of_its_instance() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=1, **with_disks())
        await planet.ready(1)
        claims = planet.user.resource(VOLUME_CLAIMS)
        before = {each["metadata"]["name"]: each["metadata"]["uid"] for each in await planet.all(claims)}
        await planet.edit(template=workload(image="example.com/app:2", **with_disks())["spec"]["template"])
        await planet.wait(1)
        await planet.ready(1)
        assert await images(planet) == ["2"]
        assert {each["metadata"]["name"]: each["metadata"]["uid"] for each in await planet.all(claims)} == before
        await planet.workloads.delete("web", "default")
        await planet.gone(planet.workloads)
        await planet.wait(5)
        assert [each["metadata"]["name"].split("-", 3)[3] for each in await planet.all(claims)] == ["0-kept"]

    play(story)


def test_instances_without_room_in_the_quota_wait_behind_their_gate() -> None:
    async def story(planet: Planet) -> None:
        quotas = planet.user.resource(RESOURCE_QUOTAS)
        metadata = {"name": "small", "namespace": "default"}
        await quotas.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": hard(2)})
        await planet.apply(replicas=3, policy="Parallel")
        await planet.wait(20)
        assert len(await planet.all(planet.pods)) == 2
        status = (await planet.workload())["status"]
        assert status["readyReplicas"] == 2
        progressing = conditions(await planet.workload())["Progressing"]
        assert (progressing["status"], progressing["reason"]) == ("False", "QuotaExhausted")
        assert "DFW" in progressing["message"]
        await quotas.patch("small", {"spec": hard(5)}, "default")
        await planet.ready(3)

    play(story)


def test_a_restarted_controller_goes_on_where_the_last_one_was_cut_off() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=8, cities=("DFW", "LHR"), policy="Parallel")
        for pause in (0.0, 0.01, 0.05, 0.1, 0.3, 0.5, 1.0):
            await planet.wait(pause)
            await planet.stop()
            await planet.wait(0.2)
            planet.start()
        await planet.ready(16)
        pods = await planet.all(planet.pods)
        assert len({each["metadata"]["annotations"]["networking.datumapis.com/interfaces"] for each in pods}) == 16
        assert len(planet.really_running()) == 16

    play(story)


def test_an_instance_of_somebody_else_is_left_alone_and_named() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=1)
        await planet.ready(1)
        (made,) = await planet.all(planet.instances)
        name = made["metadata"]["name"][:-1] + "1"
        foreign = {
            **made,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {**made["spec"], "controller": None},
        }
        await planet.maker().resource(planet.instances.target).create(foreign)
        await planet.edit(placements=workload(replicas=2)["spec"]["placements"])
        await planet.wait(10)
        progressing = conditions((await planet.all(planet.deployments))[0])["Progressing"]
        assert f"Instance {name} belongs to someone else" in progressing["message"]
        await planet.instances.delete(name, "default")
        await planet.ready(2)

    play(story)


def test_addresses_are_given_and_never_taken() -> None:
    async def story(planet: Planet) -> None:
        made = workload(replicas=1)
        stolen = '[{"name":"eth0","network":"default/default","addresses":["10.128.0.99/20"]}]'
        made["spec"]["template"]["metadata"]["annotations"] = {"networking.datumapis.com/interfaces": stolen}
        await planet.apply("other")
        await planet.workloads.create(made)
        await planet.ready(1)
        (pod,) = [each for each in await planet.all(planet.pods) if each["metadata"]["labels"]["app"] == "web"]
        assert "10.128.0.99" not in pod["metadata"]["annotations"]["networking.datumapis.com/interfaces"]

    play(story)


def hard(count: int) -> JsonObject:
    return {"hard": {"count/instances.compute.datumapis.com": str(count)}}


def with_disks() -> JsonObject:
    """Change a Workload so that its instances have two disks, one of them to be kept."""

    def disk(**spec: Any) -> JsonObject:
        size = {"requests": {"storage": "10Gi"}}
        return {"template": {"spec": {"resources": size, "populator": {"filesystem": {"type": "ext4"}}, **spec}}}

    return {
        "container": {
            "volumeAttachments": [{"name": "data", "mountPath": "/data"}, {"name": "kept", "mountPath": "/kept"}]
        },
        "template": {"volumes": [{"name": "data", "disk": disk()}, {"name": "kept", "disk": disk(retain=True)}]},
    }


def _is_ready(instance: JsonObject) -> bool:
    return conditions(instance).get("Ready", {}).get("status") == "True"
