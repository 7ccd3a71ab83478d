"""A new template replaces the old one, instance by instance, and can be rolled back."""

from __future__ import annotations

from tarmac.api.schema import JsonObject
from tarmac.client.targets.target import encode
from tarmac.client.targets.typed import WORKLOADS
from tarmac.client.targets.untyped import CONTROLLER_REVISIONS
from tarmac.decide.rollout import undo
from tarmac.decide.rollout.stored import history_of
from tests.stories.manifests import image_of, placement, set_image, workload
from tests.stories.telling import story
from tests.stories.world import World


@story
async def rollout(world: World) -> None:
    """Every instance is replaced, the highest ordinal first, and never more than one at a time is missing."""
    await world.open("DFW")
    await world.apply(workload(placement("DFW", replicas=3)))
    await world.settled(3)
    before = {each["metadata"]["name"]: each["metadata"]["uid"] for each in await world.instances_in("DFW")}

    _, newest, _ = world.sort.images
    await world.edit("web", lambda spec: set_image(spec, newest))
    order: list[str] = []

    async def replaced() -> bool:
        found = await world.instances_in("DFW")
        ready = [each for each in found if _is_ready(each)]
        assert len(ready) >= 2, "more than one instance is missing"
        now = [each["metadata"]["name"] for each in found if image_of(each) == newest]
        order.extend(name for name in now if name not in order)
        return len(now) == 3

    await world.until(replaced, "every instance runs the new image")
    found = await world.settled(3)
    assert order == sorted(before, reverse=True)
    after = {each["metadata"]["name"]: each["metadata"]["uid"] for each in await world.instances_in("DFW")}
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    assert [each["number"] for each in found["status"]["revisions"]] == [1, 2]


@story
async def stuck_rollout_superseded(world: World) -> None:
    """An image that cannot be pulled stops after one instance, is reported, and yields to a newer revision at once."""
    await world.open("DFW")
    await world.apply(workload(placement("DFW", replicas=3)))
    await world.settled(3)

    first, _, newest = world.sort.images
    await world.edit("web", lambda spec: set_image(spec, world.sort.nowhere))
    why = await world.stuck("ImageUnavailable")
    assert "in DFW: 1 of 3 instances: " in why.sentence
    assert why.sentence.endswith(world.sort.told)
    assert why.change == world.sort.change
    there = sorted(image_of(each) for each in await world.instances_in("DFW"))
    assert there == sorted([first, first, world.sort.nowhere])

    await world.edit("web", lambda spec: set_image(spec, newest))
    await world.settled(3)
    assert {image_of(each) for each in await world.instances_in("DFW")} == {newest}


@story
async def going_back(world: World) -> None:
    """Undo writes the earlier template again, as a new revision; undoing that returns to the previous one."""
    await world.open("DFW")
    await world.apply(workload(placement("DFW", replicas=2)))
    await world.settled(2)
    first, second, _ = world.sort.images
    await world.edit("web", lambda spec: set_image(spec, second))
    await world.settled(2)

    for expected, number in ((first, 3), (second, 4)):
        template = await _earlier(world)
        await world.edit("web", lambda spec, template=template: spec.update(template=template))
        found = await world.settled(2)
        assert {image_of(each) for each in await world.instances_in("DFW")} == {expected}
        assert found["status"]["revisions"][-1]["number"] == number


async def _earlier(world: World) -> JsonObject:
    """Return the template of the revision before the newest."""
    found = await world.workload()
    revision = undo(history_of(WORKLOADS.decode(encode(found)))).value
    assert revision is not None
    kept = await world.client.resource(CONTROLLER_REVISIONS).get(revision.template, found["metadata"]["namespace"])
    return kept["data"]["spec"]["template"]


def _is_ready(instance: JsonObject) -> bool:
    conditions = (instance.get("status") or {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
