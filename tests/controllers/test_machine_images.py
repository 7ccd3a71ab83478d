"""The catalogue of operating systems, and machines that wait until an image is available."""

from __future__ import annotations

import json
from typing import Any

from tarmac.api.compute.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.client.targets.target import dynamic
from tests.controllers.planet import NAMES, Planet, conditions, play, workload

IMAGES = dynamic(API_VERSION, "machineimages", "MachineImage", namespaced=False)
UBUNTU, TINY, DEBIAN = "datumcloud-ubuntu-2204-lts", "tarmac-tiny", "tarmac-debian-12"
SOURCE = {"source": {"file": "x.img"}, "checksum": "sha256:" + "0" * 64}
ALL = f"{NAMES},machineimage"


def _images(planet: Planet) -> Any:
    return planet.user.resource(IMAGES)


async def _restarted(planet: Planet) -> None:
    await planet.stop()
    planet.start(ALL)
    await planet.wait(5)


def _machines(image: str = "tarmac/tiny") -> JsonObject:
    made = workload(replicas=1)
    disk = {"template": {"spec": {"populator": {"image": {"name": image}}}}}
    spec = made["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "boot", "disk": disk}]
    spec["runtime"] = {
        "resources": {"instanceType": "datumcloud/d1-standard-1"},
        "virtualMachine": {"volumeAttachments": [{"name": "boot"}]},
    }
    return made


async def _apply(planet: Planet, made: JsonObject) -> None:
    async def networked() -> bool:
        return bool(await planet.all(planet.networks))

    await planet.until(networked)
    await planet.workloads.create(made)


def test_an_image_of_the_catalogue_tells_how_it_is_and_comes_back() -> None:
    async def story(planet: Planet) -> None:
        await _restarted(planet)
        assert conditions(await _images(planet).get(UBUNTU))["Ready"]["reason"] == "Active"
        said = conditions(await _images(planet).get(DEBIAN))["Ready"]
        assert (said["status"], said["reason"]) == ("False", "ImageUnavailable")
        assert said["message"] == f"MachineImage {DEBIAN} has no source yet; set its spec.source and spec.checksum."
        await _images(planet).patch(DEBIAN, {"spec": SOURCE})
        await planet.wait(5)
        assert conditions(await _images(planet).get(DEBIAN))["Ready"]["reason"] == "Active"
        lifecycle = {"phase": "Disabled", "replacementMachineImage": TINY}
        await _images(planet).patch(DEBIAN, {"spec": {"lifecycle": lifecycle}})
        await planet.wait(5)
        seen = await _images(planet).get(DEBIAN)
        assert (conditions(seen)["Ready"]["status"], conditions(seen)["Ready"]["reason"]) == ("False", "ImageDisabled")
        assert seen["status"]["deprecatedAt"]
        await _images(planet).delete(DEBIAN)
        await planet.wait(5)
        assert "source" not in (await _images(planet).get(DEBIAN))["spec"], "created again"

    play(story)


def test_a_machine_waits_for_its_image_and_goes_on_by_itself() -> None:
    async def story(planet: Planet) -> None:
        for place in await planet.all(planet.locations):  # simulated nodes need no file
            real = {"spec": {"provider": {"simulated": None, "nodes": {}}}}
            await planet.locations.patch(place["metadata"]["name"], real, type="merge")
        await _apply(planet, _machines())
        await planet.wait(20)
        assert await planet.all(planet.pods) == []
        (instance,) = await planet.all(planet.instances)
        ready, programmed = (conditions(instance)[kind] for kind in ("Ready", "Programmed"))
        assert (ready["status"], ready["reason"]) == ("False", "ImageUnavailable")
        assert ready["message"] == f"MachineImage {TINY} has no source yet; set its spec.source and spec.checksum."
        assert programmed["reason"] == "PendingProgramming"
        await _images(planet).patch(TINY, {"spec": SOURCE})
        await planet.ready(1)
        (pod,) = await planet.all(planet.pods)
        told = json.loads(pod["metadata"]["annotations"]["compute.datumapis.com/machine-images"])
        assert (told["tarmac/tiny"]["source"], told["tarmac/tiny"]["size"]) == ({"file": "x.img"}, "1Gi")

    play(story)


def test_an_image_that_is_used_is_not_deleted_before_its_last_user() -> None:
    async def story(planet: Planet) -> None:
        await _restarted(planet)
        own = {"apiVersion": API_VERSION, "kind": "MachineImage", "metadata": {"name": "acme-os"}}
        await _images(planet).create({**own, "spec": {"size": "10Gi", "format": "raw", **SOURCE}})
        await _apply(planet, _machines("acme/os"))
        await planet.ready(1)
        await _images(planet).delete("acme-os")
        await planet.wait(60)
        assert "deletionTimestamp" in (await _images(planet).get("acme-os"))["metadata"]
        await planet.workloads.delete("web", "default")
        await planet.gone(_images(planet), "acme-os")

    play(story)


def test_a_machine_that_panics_says_so() -> None:
    async def story(planet: Planet) -> None:
        await _images(planet).patch(TINY, {"spec": SOURCE})
        made = _machines()
        made["spec"]["template"]["metadata"] = {"annotations": {"sim.tarmac/panic-after": "3s"}}
        await _apply(planet, made)

        async def panicked() -> bool:
            found = [conditions(each) for each in await planet.all(planet.instances)]
            return any(
                each["Running"]["reason"] == each["Ready"]["reason"] == "GuestPanicked"
                and each["Programmed"]["status"] == "True"
                for each in found
                if "Programmed" in each
            )

        await planet.until(panicked, 60)

    play(story)
