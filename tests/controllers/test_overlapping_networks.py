"""No instance is on two Networks with common addresses, and every object involved reports the reason."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.networking.names import API_VERSION as NETWORKING
from tarmac.api.schema import JsonObject
from tarmac.api.status import Invalid
from tarmac.client.targets.untyped import EVENTS
from tests.controllers.planet import NAMES, Planet, conditions, play, workload

REASON = "NetworkRangesOverlap"
WORDS = "Networks default/wide (10.128.0.0/9) and default/narrow (10.200.0.0/16), which overlap"


def network(name: str, ipv4: str = "") -> JsonObject:
    ipam = {"mode": "Auto", **({"ipv4Range": ipv4} if ipv4 else {})}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": NETWORKING, "kind": "Network", "metadata": metadata, "spec": {"ipam": ipam}}


def on(*networks: str) -> dict[str, Any]:
    """Return a Workload's template with an interface on each."""
    return {"template": {"networkInterfaces": [{"network": {"name": name}} for name in networks]}}


async def why(planet: Planet, resource: str, name: str) -> JsonObject:
    path = f"/apis/compute.datumapis.com/v1alpha/namespaces/default/{resource}/{name}/why"
    return await planet.user.get_json(path)


async def told(planet: Planet) -> set[tuple[str, str]]:
    found = (await planet.user.resource(EVENTS).list("default")).items
    return {(each["involvedObject"]["kind"], each["reason"]) for each in found if WORDS in each["message"]}


def test_two_interfaces_on_one_network_have_addresses_of_their_own() -> None:
    async def story(planet: Planet) -> None:
        await planet.networks.create(network("wide", "10.128.0.0/9"))
        await planet.wait(5)
        await planet.apply(**on("wide", "wide"))
        await planet.ready(2)
        for instance in await planet.all(planet.instances):
            shown = {each["name"]: each for each in instance["status"]["networkInterfaces"]}
            assert shown.keys() == {"eth0", "eth1"}
            assert shown["eth0"]["assignments"]["networkIP"] != shown["eth1"]["assignments"]["networkIP"]
            assert shown["eth0"]["macAddress"] != shown["eth1"]["macAddress"]

    play(story)


@pytest.mark.parametrize("names", [("wide", "narrow"), ("narrow", "wide"), ("apart", "wide", "narrow")])
def test_a_workload_that_asks_for_it_is_refused_at_the_interface(names: tuple[str, ...]) -> None:
    async def story(planet: Planet) -> None:
        for made in (("wide", "10.128.0.0/9"), ("narrow", "10.200.0.0/16"), ("apart", "192.168.0.0/16")):
            await planet.networks.create(network(*made))
        await planet.wait(5)
        with pytest.raises(Invalid) as refused:
            await planet.apply(**on(*names))
        (cause,) = (refused.value.details or {})["causes"]
        assert cause["field"] == f"spec.template.spec.networkInterfaces[{len(names) - 1}].network"
        assert "10.128.0.0/9" in cause["message"]
        assert "which overlap" in cause["message"]
        await planet.apply(**on("wide", "apart"))
        await planet.ready(2)
        with pytest.raises(Invalid):
            await planet.edit(template=workload(**on(*names))["spec"]["template"])

    play(story)


def test_networks_that_come_later_are_not_attached_and_the_workload_says_why() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(**on("wide", "narrow"))
        await planet.networks.create(network("wide", "10.128.0.0/9"))
        await planet.networks.create(network("narrow", "10.200.0.0/16"))
        await planet.wait(10)
        assert not await planet.all(planet.deployments)
        said = conditions(await planet.workload())
        assert said["Available"]["reason"] == REASON
        assert WORDS in said["Available"]["message"]
        assert f"{REASON}: " in said["Progressing"]["message"]
        assert ("Workload", REASON) in await told(planet)
        (line,) = [each for each in (await why(planet, "workloads", "web"))["verdicts"] if each["reason"] == REASON]
        assert WORDS in line["message"]
        assert line["change"].startswith("Attach eth1 to a Network")
        await planet.networks.create(network("apart", "192.168.0.0/16"))
        await planet.edit(template=workload(**on("wide", "apart"))["spec"]["template"])
        await planet.ready(2)

    play(story)


def test_ranges_that_come_when_instances_wait_for_them_let_none_start() -> None:
    async def story(planet: Planet) -> None:
        for name in ("a", "b", "c"):  # with `default` they use up the available ranges
            await planet.networks.create(network(name))
        await planet.wait(5)
        await planet.stop()
        planet.start(NAMES.replace("network,", ""))
        await planet.networks.create(network("one"))
        await planet.networks.create(network("other"))
        await planet.workloads.create(workload(**on("one", "other")))
        await planet.wait(10)
        (deployment,) = await planet.all(planet.deployments)
        touch = {"metadata": {"annotations": {"look": "again"}}}
        await planet.deployments.patch(deployment["metadata"]["name"], touch, "default")
        await planet.wait(5)
        (first, *_) = await planet.all(planet.instances)
        await planet.stop()
        planet.start()
        await planet.wait(60)
        assert not await planet.all(planet.pods)
        (deployment,) = await planet.all(planet.deployments)
        found = [conditions(each)["Ready"] for each in await planet.all(planet.instances)]
        found += [conditions(each)["Available"] for each in (deployment, await planet.workload())]
        assert {each["reason"] for each in found} == {REASON}
        (line,) = (await why(planet, "instances", first["metadata"]["name"]))["verdicts"]
        assert line["reason"] == REASON

    play(story)


def test_networks_of_a_namespace_that_name_no_range_can_meet() -> None:
    async def story(planet: Planet) -> None:
        await planet.networks.create(network("corp"))
        await planet.apply(**on("default", "corp"))
        await planet.ready(2)
        ranges = [each["status"]["ipv4Range"] for each in await planet.all(planet.networks)]
        assert sorted(ranges) == ["10.128.0.0/9", "172.16.0.0/12"]

    play(story)
