"""A Workload's priority class: rights of its author count, not of the controller that creates its Pods."""

from __future__ import annotations

import pytest

from tarmac.api.status import Forbidden
from tarmac.server.security.users import User
from tests.admission.world import Object, World

JANE = User("jane", groups=("system:authenticated",))
CRITICAL = "system-cluster-critical"
KINDS = ("workloads", "workloaddeployments", "instances")


def named(plural: str, priority: str) -> Object:
    """An object of a kind, with the fields that this plugin reads."""
    content = {"priorityClassName": priority}
    spec = content if plural == "instances" else {"template": {"spec": content}}
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize("plural", KINDS)
async def test_a_class_that_outranks_everybody_takes_the_right_to_use_it(world: World, plural: str) -> None:
    with pytest.raises(Forbidden, match=f'the right "use" on .* "{CRITICAL}"'):
        world.admit(plural, named(plural, CRITICAL), "Priority", user=JANE)
    world.admit(plural, named(plural, CRITICAL), "Priority")


@pytest.mark.parametrize("plural", KINDS)
async def test_a_class_must_exist_and_one_of_an_administrator_is_for_everybody(world: World, plural: str) -> None:
    with pytest.raises(Forbidden, match="no PriorityClass with name high was found"):
        world.admit(plural, named(plural, "high"), "Priority", user=JANE)
    await world.put("priorityclasses", {"metadata": {"name": "high"}, "value": 10})
    world.admit(plural, named(plural, "high"), "Priority", user=JANE)


async def test_an_update_is_asked_only_when_it_changes_the_name(world: World) -> None:
    old = named("workloads", CRITICAL)
    world.admit("workloads", named("workloads", CRITICAL), "Priority", old=old, user=JANE)
    with pytest.raises(Forbidden, match='the right "use"'):
        world.admit("workloads", named("workloads", "system-node-critical"), "Priority", old=old, user=JANE)
    world.admit("workloads", named("workloads", ""), "Priority", old=old, user=JANE)
