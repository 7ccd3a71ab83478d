"""A stopped machine keeps its Instance, its disks and its addresses, and blocks no rollout."""

from __future__ import annotations

from typing import Any

from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tests.controllers.planet import Planet, conditions, play
from tests.controllers.test_boot_disks import Disks, machines


def running(image: str = "acme/one", *, runs: bool = True, replicas: int = 1, colour: str = "red") -> JsonObject:
    made = machines(image, colour=colour)
    made["spec"]["template"]["spec"]["runtime"]["virtualMachine"]["running"] = runs
    made["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = replicas
    return made


class Fleet:
    """Machines of a story, with their state."""

    def __init__(self, planet: Planet) -> None:
        self._planet = planet
        self.disks = Disks(planet)

    async def begin(self, replicas: int = 1) -> None:
        await self.disks.begin()
        if replicas > 1:
            await self.write(replicas=replicas)
            await self._planet.ready(replicas)

    async def write(self, **options: Any) -> None:
        spec = running(**options)["spec"]
        await self._planet.workloads.patch("web", {"spec": spec}, "default", type="merge")

    async def switch(self, name: str, *, runs: bool) -> None:
        """Stop or start one of them, as `tarmac machine stop|start` does."""
        patch = {"spec": {"runtime": {"virtualMachine": {"running": runs}}}}
        await self._planet.instances.patch(name, patch, "default")

    async def instances(self) -> list[JsonObject]:
        found = await self._planet.all(self._planet.instances)
        return sorted(found, key=lambda each: each["metadata"]["name"])

    async def identities(self) -> list[tuple[str, str]]:
        """Return the state that must outlive a stop: the Instance, and its addresses."""
        own = [each["metadata"] for each in await self.instances()]
        return [(each["uid"], each["annotations"][ANNOTATION_INTERFACES]) for each in own]

    async def stopped(self, *names: str) -> None:
        """Wait until these have no Pod, and report the reason."""

        async def check() -> bool:
            found = {each["metadata"]["name"]: conditions(each)["Ready"] for each in await self.instances()}
            pods = {each["metadata"]["name"] for each in await self._planet.all(self._planet.pods)}
            return all(found[name]["reason"] == "Stopped" and name not in pods for name in names)

        await self._planet.until(check)


def test_a_workload_is_stopped_and_started_and_nothing_is_replaced() -> None:
    async def story(planet: Planet) -> None:
        fleet = Fleet(planet)
        await fleet.begin(2)
        before, disks = await fleet.identities(), await fleet.disks.uids()
        names = [each["metadata"]["name"] for each in await fleet.instances()]
        revision = (await planet.workload())["status"]["revision"]
        await fleet.write(runs=False, replicas=2)
        await fleet.stopped(*names)
        assert planet.really_running() == []
        assert await fleet.identities() == before
        assert await fleet.disks.uids() == disks
        await planet.wait(4000)  # far longer than any timeout of the controllers
        status = (await planet.workload())["status"]
        assert (status["readyReplicas"], status["stoppedReplicas"], status["revision"]) == (0, 2, revision)
        assert status["summary"] == {"ready": "0/2", "cities": "0/1", "status": "Stopped"}
        said = conditions({"status": status})
        assert (said["Progressing"]["status"], said["Progressing"]["reason"]) == ("True", "Complete")
        assert (said["Available"]["status"], said["Available"]["reason"]) == ("False", "Stopped")
        await fleet.write(runs=True, replicas=2)
        await planet.ready(2)
        assert planet.really_running() == names
        assert await fleet.identities() == before
        assert await fleet.disks.uids() == disks
        assert (await planet.workload())["status"]["revisions"][-1]["number"] == 1

    play(story)


def test_a_machine_stopped_individually_stays_stopped_until_it_or_the_template_is_started() -> None:
    async def story(planet: Planet) -> None:
        fleet = Fleet(planet)
        await fleet.begin(2)
        first, second = (each["metadata"]["name"] for each in await fleet.instances())
        await fleet.switch(first, runs=False)
        await fleet.stopped(first)
        await planet.ready(1)  # complete: the other one serves, and this one stays stopped
        await planet.stop()
        planet.start()
        await planet.wait(60)
        assert planet.really_running() == [second]
        await fleet.switch(first, runs=True)
        await planet.ready(2)
        await fleet.switch(second, runs=False)
        await fleet.stopped(second)
        await fleet.write(runs=False, replicas=2)
        await fleet.stopped(first, second)
        await fleet.write(runs=True, replicas=2)
        await planet.ready(2)

    play(story)


def test_a_stopped_machine_neither_holds_up_a_rollout_nor_a_scaling() -> None:
    async def story(planet: Planet) -> None:
        fleet = Fleet(planet)
        await fleet.begin(2)
        first = (await fleet.instances())[0]["metadata"]["name"]
        await fleet.switch(first, runs=False)
        await fleet.stopped(first)
        await fleet.write(replicas=3)
        await planet.ready(2)  # of three; ordinals above a stopped one are created all the same
        uids = {each["metadata"]["uid"] for each in await fleet.instances()}
        await fleet.write(replicas=3, colour="blue")
        await planet.ready(3)  # a new revision replaces them all, and runs by the template
        assert not uids & {each["metadata"]["uid"] for each in await fleet.instances()}

    play(story)


def test_a_workload_that_begins_stopped_is_complete_and_starts_when_told() -> None:
    async def story(planet: Planet) -> None:
        fleet = Fleet(planet)
        await fleet.begin()
        await fleet.write(runs=False, colour="blue", replicas=2)
        names = [f"{(await fleet.instances())[0]['metadata']['name'][:-1]}{ordinal}" for ordinal in (0, 1)]

        async def made() -> bool:
            return len(await fleet.instances()) == 2

        await planet.until(made)
        await fleet.stopped(*names)
        await planet.ready(0)
        await fleet.write(runs=True, colour="blue", replicas=2)
        await planet.ready(2)

    play(story)


def test_a_machine_that_is_started_while_it_shuts_down_comes_back() -> None:
    async def story(planet: Planet) -> None:
        fleet = Fleet(planet)
        await fleet.begin()
        [name] = [each["metadata"]["name"] for each in await fleet.instances()]
        before = await fleet.identities()
        await fleet.switch(name, runs=False)
        await planet.wait(0.1)
        await fleet.switch(name, runs=True)
        await planet.wait(90)
        await planet.ready(1)
        assert await fleet.identities() == before

    play(story)
