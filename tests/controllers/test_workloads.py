"""From one Workload to ready instances in several cities, and their status in the Workload."""

from __future__ import annotations

import msgspec

from tarmac.api.compute.instance import TemplateMeta
from tarmac.api.compute.names import (
    ANNOTATION_ANYCAST,
    API_VERSION,
    FINALIZER,
    IDENTITY_LABELS,
    LABEL_CITY_CODE,
    LABEL_DEPLOYMENT_UID,
    LABEL_INSTANCE_INDEX,
    LABEL_MOVED_FROM,
    deployment_name,
)
from tarmac.api.networking.names import API_VERSION as NETWORKING
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.typed import WORKLOADS
from tarmac.client.targets.untyped import EVENTS
from tests.controllers.planet import PLACES, Planet, conditions, play, workload


def test_a_workload_becomes_ready_instances_in_each_of_its_cities() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(cities=("DFW", "LHR"), replicas=2)
        await planet.ready(4)
        status = (await planet.workload())["status"]
        assert status["summary"] == {"ready": "4/4", "cities": "2/2", "status": "Available"}
        assert status["deployments"] == 2
        (placement,) = status["placements"]
        assert (placement["name"], placement["readyReplicas"], placement["locations"]) == ("all", 4, ["dfw", "lhr"])
        names = {each["metadata"]["name"] for each in await planet.all(planet.deployments)}
        assert names == {deployment_name("web", "all", city) for city in ("DFW", "LHR")}

    play(story)


def test_labels_say_whose_everything_is() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(metadata={"labels": {"team": "a"}})
        await planet.ready(2)
        (deployment,) = await planet.all(planet.deployments)
        for obj in (*await planet.all(planet.instances), *await planet.all(planet.pods)):
            labels = obj["metadata"]["labels"]
            assert set(labels) == {"app", *IDENTITY_LABELS} - {LABEL_MOVED_FROM}, "no label of the Workload itself"
            assert labels[LABEL_CITY_CODE] == "DFW"
            assert labels[LABEL_DEPLOYMENT_UID] == deployment["metadata"]["uid"]
            assert obj["metadata"]["name"].endswith("-" + labels[LABEL_INSTANCE_INDEX])

    play(story)


def test_every_instance_has_addresses_of_its_own_in_both_families() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(cities=("DFW", "LHR"), replicas=3)
        await planet.ready(6)
        nics = [each["status"]["networkInterfaces"][0] for each in await planet.all(planet.instances)]
        addresses = [address["address"] for nic in nics for address in nic["addresses"]]
        assert len(set(addresses)) == 12
        assert all(nic["assignments"]["networkIP"] + "/20" == nic["addresses"][0]["address"] for nic in nics)

    play(story)


def test_a_removed_city_takes_its_deployment_along() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(cities=("DFW", "LHR"))
        await planet.ready(4)
        await planet.edit(placements=workload(cities=("LHR",))["spec"]["placements"])
        await planet.ready(2)
        (left,) = await planet.all(planet.deployments)
        assert left["spec"]["cityCode"] == "LHR"
        assert {each["spec"]["nodeSelector"][LABEL_LOCATION] for each in await planet.all(planet.pods)} == {"lhr"}

    play(story)


def test_a_template_change_keeps_scaled_replicas() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(replicas=1)
        await planet.ready(1)
        (deployment,) = await planet.all(planet.deployments)
        name = deployment["metadata"]["name"]
        await planet.deployments.patch(name, {"spec": {"replicas": 3}}, "default", subresource="scale")
        await planet.ready(3)
        await planet.edit(template=workload(image="example.com/app:2")["spec"]["template"])
        await planet.ready(3)
        assert (await planet.deployments.get(name, "default"))["spec"]["replicas"] == 3

    play(story)


def test_deletion_waits_for_everything_that_was_made() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(cities=("DFW", "LHR"))
        await planet.ready(4)
        await planet.workloads.delete("web", "default")
        going = await planet.workload()
        assert going["metadata"]["finalizers"] == [FINALIZER]
        await planet.gone(planet.workloads)
        for resource in (planet.deployments, planet.instances, planet.pods):
            assert await planet.all(resource) == []
        assert planet.really_running() == []

    play(story)


def test_a_workload_made_again_waits_for_the_names_of_the_old_one() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply()
        await planet.ready(2)
        first = {each["metadata"]["uid"] for each in await planet.all(planet.pods)}
        await planet.workloads.delete("web", "default")
        await planet.gone(planet.workloads)
        await planet.apply()
        await planet.ready(2)
        assert first.isdisjoint({each["metadata"]["uid"] for each in await planet.all(planet.pods)})

    play(story)


def test_a_deployment_of_somebody_else_is_left_alone_and_named() -> None:
    async def story(planet: Planet) -> None:
        name = deployment_name("web", "all", "DFW")
        other = workload("other")["spec"]
        spec = {
            "workloadRef": {"name": "other", "uid": "1"},
            "placementName": "x",
            "cityCode": "DFW",
            "template": other["template"],
            "scaleSettings": {"minReplicas": 1},
        }
        foreign = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        await planet.deployments.create({"apiVersion": API_VERSION, "kind": "WorkloadDeployment", **foreign})
        await planet.apply(cities=("DFW", "LHR"))
        await planet.wait(30)
        assert (await planet.deployments.get(name, "default"))["spec"]["workloadRef"] == spec["workloadRef"]
        progressing = conditions(await planet.workload())["Progressing"]
        assert progressing["status"] == "False"
        assert f"WorkloadDeployment {name} belongs to someone else" in progressing["message"]
        await planet.deployments.delete(name, "default")
        await planet.ready(4)

    play(story)


def test_a_network_that_does_not_exist_stops_nothing_that_runs() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply()
        await planet.ready(2)
        template = workload()["spec"]["template"]
        template["spec"]["networkInterfaces"] = [{"network": {"name": "nowhere"}}]
        await planet.edit(template=template)
        await planet.wait(10)
        assert len(await planet.all(planet.pods)) == 2
        progressing = conditions(await planet.workload())["Progressing"]
        assert "Unable to find networks: default/nowhere" in progressing["message"]
        network = {"metadata": {"name": "nowhere", "namespace": "default"}, "spec": {"ipam": {"mode": "Auto"}}}
        await planet.networks.create({"apiVersion": NETWORKING, "kind": "Network", **network})
        await planet.ready(2)
        (first, _) = await planet.all(planet.instances)
        assert first["spec"]["networkInterfaces"][0]["network"]["name"] == "nowhere"

    play(story)


def test_an_edit_that_changes_nothing_writes_nothing() -> None:
    async def story(planet: Planet) -> None:
        made = await planet.apply()
        await planet.ready(2)
        await planet.wait(5)
        before = await planet.versions()
        await planet.edit(template=made["spec"]["template"])
        await planet.wait(30)
        assert await planet.versions() == before

    play(story)


async def _told(planet: Planet) -> list[tuple[str, str]]:
    """Return the events of the Workload, in order."""
    events = await planet.all(planet.user.resource(EVENTS))
    return [(each["reason"], each["message"]) for each in events if each["involvedObject"]["kind"] == "Workload"]


def test_people_are_told_of_scaling_and_rollouts() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply()
        await planet.ready(2)
        await planet.edit(template=workload(image="example.com/app:2")["spec"]["template"])
        await planet.wait(1)
        await planet.ready(2)
        await planet.wait(15)
        assert [reason for reason, _ in await _told(planet)] == ["Scaled", "RolloutStarted", "RolloutComplete"]

    play(story)


def test_scaling_is_told_once_however_many_cities_there_are_and_not_at_all_when_everything_goes() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(cities=("DFW", "LHR", "SEA"))
        await planet.ready(6)
        await planet.workloads.delete("web", "default")
        await planet.gone(planet.workloads)
        assert await _told(planet) == [("Scaled", "Scaled from 0 to 6 replicas")]

    play(story)


def test_a_rollout_that_was_held_up_is_told_complete_when_it_is() -> None:
    """Another event was recorded in between."""

    async def story(planet: Planet) -> None:
        await planet.apply()
        await planet.ready(2)
        quotas = planet.user.resource(dynamic("v1", "resourcequotas", "ResourceQuota"))
        hard = {"hard": {"pods": "1"}}
        await quotas.create({"metadata": {"name": "tight", "namespace": "default"}, "spec": hard})
        await planet.edit(template=workload(image="example.com/app:2")["spec"]["template"])
        await planet.wait(60)
        assert conditions(await planet.workload())["Progressing"]["reason"] == "QuotaExhausted"
        assert "RolloutComplete" not in dict(await _told(planet))
        await quotas.delete("tight", "default")
        await planet.wait(60)
        told = await _told(planet)
        assert [reason for reason, _ in told] == ["Scaled", "RolloutStarted", "QuotaExhausted", "RolloutComplete"]
        assert "quota tight is exhausted in DFW" in dict(told)["QuotaExhausted"]
        first, second = (await planet.workload())["status"]["revisions"]
        assert first["created"] <= first["completed"] <= second["created"] < second["completed"]

    play(story)


def test_a_city_that_cannot_serve_is_said_and_served_once_it_can() -> None:
    async def story(planet: Planet) -> None:
        await planet.open(PLACES[2], ready=False)
        planet.locating = False
        await planet.apply(cities=("DFW", "SEA"))
        await planet.wait(5)
        progressing = conditions(await planet.workload())["Progressing"]
        assert (progressing["status"], progressing["reason"]) == ("False", "NoMatchingLocations")
        assert "No Location in SEA is ready" in progressing["message"]
        planet.locating = True
        await planet.open(PLACES[2])
        await planet.ready(4)

    play(story)


def test_instances_of_a_lost_city_start_elsewhere_and_go_when_it_is_back() -> None:
    async def story(planet: Planet) -> None:
        made = workload(cities=("DFW",), replicas=4)["spec"]["placements"]
        made[0]["onCityLoss"] = {"policy": "Move", "cities": ["LHR", "SEA"], "after": "1m"}
        await planet.apply(replicas=4)
        await planet.edit(placements=made)
        await planet.ready(4)
        await planet.open(PLACES[0], ready=False)
        await planet.wait(30)
        assert len(await planet.all(planet.deployments)) == 1, "not before its time"
        await planet.wait(300)
        moved = [
            each for each in await planet.all(planet.deployments) if LABEL_MOVED_FROM in each["metadata"]["labels"]
        ]
        assert {each["spec"]["cityCode"] for each in moved} == {"LHR", "SEA"}
        assert sum(each["status"]["readyReplicas"] for each in moved) == 4
        await planet.open(PLACES[0])
        await planet.wait(600)
        (own,) = await planet.all(planet.deployments)
        assert own["spec"]["cityCode"] == "DFW"
        told = [message for reason, message in await _told(planet) if reason.startswith("City")]
        assert told == [
            "DFW is lost; its instances start in LHR",
            "DFW is lost; its instances start in SEA",
            "DFW has its instances back from SEA",
            "DFW has its instances back from LHR",
        ]

    play(story)


def test_a_shared_address_that_nobody_announces_is_not_shown_and_people_are_told() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply("one", replicas=1, metadata={"annotations": {ANNOTATION_ANYCAST: "true"}})
        await planet.apply("plain", replicas=1)
        for name in ("one", "plain"):
            await planet.ready(1, name)
        one, plain = await planet.workload("one"), await planet.workload("plain")
        assert "anycastAddresses" not in one["status"]
        said = conditions(one)["AnycastReady"]
        assert (said["status"], said["reason"]) == ("False", "NotAnnounced")
        assert "AnycastReady" not in conditions(plain)
        events = [each for each in await planet.all(planet.user.resource(EVENTS)) if each["reason"] == "NotAnnounced"]
        assert [(each["type"], each["involvedObject"]["name"]) for each in events] == [("Warning", "one")]
        annotation = {"metadata": {"annotations": {ANNOTATION_ANYCAST: None}}}
        await planet.workloads.patch("one", annotation, "default")
        await planet.wait(2)
        assert "AnycastReady" not in conditions(await planet.workload("one"))

    play(story)


def test_shorthands_of_a_server_that_stores_them_are_read_as_they_are_meant() -> None:
    written = workload(cities=("dfw",))
    written["spec"]["template"] = {
        "labels": {"app": "web"},
        "spec": {**written["spec"]["template"]["spec"], "networkInterfaces": [{"network": "default"}]},
    }
    read = WORKLOADS.decode(msgspec.json.encode(written))
    assert read.spec.placements[0].city_codes == ["DFW"]
    assert read.spec.template.metadata == TemplateMeta(labels={"app": "web"})
    (nic,) = read.spec.template.spec.network_interfaces
    assert (nic.name, nic.network.name) == ("eth0", "default")
