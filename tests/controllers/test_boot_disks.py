"""A replaced machine keeps its boot disk if the image is the same; another image means a new disk."""

from __future__ import annotations

from typing import Any

from tarmac.api.compute.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import EVENTS, VOLUME_CLAIMS
from tests.controllers.planet import Planet, play, workload

IMAGES = dynamic(API_VERSION, "machineimages", "MachineImage", namespaced=False)
NOTE = "compute.datumapis.com"


def machines(image: str, *, retain: bool = False, colour: str = "red") -> JsonObject:
    made = workload(replicas=1)
    boot = {"populator": {"image": {"name": image}}, "retain": retain}
    data = {"populator": {"filesystem": {"type": "ext4"}}, "resources": {"requests": {"storage": "10Gi"}}}
    spec = made["spec"]["template"]["spec"]
    spec["volumes"] = [
        {"name": name, "disk": {"template": {"spec": disk}}} for name, disk in (("boot", boot), ("data", data))
    ]
    spec["runtime"] = {
        "resources": {"instanceType": "datumcloud/d1-standard-1"},
        "virtualMachine": {"volumeAttachments": [{"name": "boot"}, {"name": "data"}]},
    }
    made["spec"]["template"]["metadata"] = {"annotations": {"colour": colour}}
    return made


class Disks:
    """The disks of a machine and its image, for a story."""

    def __init__(self, planet: Planet) -> None:
        self._planet = planet
        self.images: Any = planet.user.resource(IMAGES)

    async def begin(self, **options: Any) -> None:
        for name, digit in (("one", "1"), ("two", "2")):
            own = {"apiVersion": API_VERSION, "kind": "MachineImage", "metadata": {"name": f"acme-{name}"}}
            said = {"size": "10Gi", "format": "raw", "source": {"file": name}, "checksum": f"sha256:{digit * 64}"}
            await self.images.create({**own, "spec": said})

        async def networked() -> bool:
            return bool(await self._planet.all(self._planet.networks))

        await self._planet.until(networked)
        await self._planet.workloads.create(machines("acme/one", **options))
        await self._planet.ready(1)

    async def change(self, image: str, **options: Any) -> None:
        """Roll out another template."""
        await self._planet.workloads.patch("web", {"spec": machines(image, **options)["spec"]}, "default", type="merge")
        await self._planet.wait(60)
        await self._planet.ready(1)

    async def uids(self) -> tuple[str, str]:
        """Return the uids of the boot disk's claim and of the data disk's."""
        claims = await self._planet.all(self._planet.user.resource(VOLUME_CLAIMS))
        found = {each["metadata"]["name"].rpartition("-")[2]: each["metadata"]["uid"] for each in claims}
        return found["boot"], found["data"]

    async def notes(self) -> dict[str, str]:
        claims = await self._planet.all(self._planet.user.resource(VOLUME_CLAIMS))
        return next(each["metadata"]["annotations"] for each in claims if each["metadata"]["name"].endswith("-boot"))

    async def told(self, reason: str) -> list[str]:
        events = await self._planet.all(self._planet.user.resource(EVENTS))
        return [each["message"] for each in events if each["reason"] == reason]


def test_another_image_means_another_boot_disk_and_the_data_lives_on() -> None:
    async def story(planet: Planet) -> None:
        disks = Disks(planet)
        await disks.begin()
        boot, data = await disks.uids()
        await disks.change("acme/one", colour="blue")
        assert await disks.uids() == (boot, data), "the same image, the same disk"
        await disks.change("acme/two")
        assert (await disks.uids())[1] == data
        assert (await disks.uids())[0] != boot
        assert (await disks.notes())[f"{NOTE}/populate-from-image"] == "acme/two"
        [said] = await disks.told("BootDiskReplaced")
        assert "of acme/one (sha256:111111111111) is made again from acme/two (sha256:222222222222)" in said

    play(story)


def test_a_new_sum_takes_effect_with_the_next_instance_and_not_before() -> None:
    async def story(planet: Planet) -> None:
        disks = Disks(planet)
        await disks.begin()
        before = await disks.uids()
        await disks.images.patch("acme-one", {"spec": {"checksum": f"sha256:{'3' * 64}"}})
        [pod] = await planet.all(planet.pods)
        await planet.pods.delete(pod["metadata"]["name"], "default")
        await planet.wait(60)
        await planet.ready(1)
        assert await disks.uids() == before, "the next Pod gets the machine's disks"
        await disks.change("acme/one", colour="blue")
        assert (await disks.uids())[0] != before[0]
        assert (await disks.notes())[f"{NOTE}/populated-checksum"] == f"sha256:{'3' * 64}"

    play(story)


def test_a_retained_boot_disk_is_kept_whatever_the_image_which_is_said() -> None:
    async def story(planet: Planet) -> None:
        disks = Disks(planet)
        await disks.begin(retain=True)
        before = await disks.uids()
        await disks.change("acme/two", retain=True)
        assert await disks.uids() == before
        assert await disks.told("BootDiskReplaced") == []
        [said] = await disks.told("BootDiskKept")
        assert said.endswith("the image acme/two (sha256:222222222222) has no effect")

    play(story)
