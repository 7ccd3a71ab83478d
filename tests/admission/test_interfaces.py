"""Only the address controllers set a Pod's networks, and they set them once."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.identities import controller_user
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.status import Forbidden
from tarmac.server.security.users import User
from tests.admission.world import World, pod

CONTROLLER = User(controller_user("instance"))
OTHER_CONTROLLER = User(controller_user("quota"), groups=("system:masters",))
NODE = User("system:node:n", groups=("system:nodes",))


def holding(text: str | None) -> dict[str, Any]:
    made = pod(nodeName="n")
    made["metadata"]["annotations"] = {ANNOTATION_INTERFACES: text} if text is not None else {}
    return made


async def test_a_user_cannot_join_a_network_by_writing_it_on_a_pod(world: World) -> None:
    with pytest.raises(Forbidden, match="set by the controllers only"):
        world.admit("pods", holding("[]"))
    world.admit("pods", holding("[]"), user=CONTROLLER)
    with pytest.raises(Forbidden, match="set by the controllers only"):
        world.admit("pods", holding("[]"), user=OTHER_CONTROLLER)
    world.admit("pods", holding(None))


@pytest.mark.parametrize("subresource", ["", "status", "ephemeralcontainers"])
async def test_it_never_changes(world: World, subresource: str) -> None:
    user, other = NODE if subresource == "status" else CONTROLLER, '[{"name":"eth1"}]'
    with pytest.raises(Forbidden, match="cannot be changed once it is set"):
        world.admit("pods", holding(other), old=holding("[]"), subresource=subresource, operation="UPDATE", user=user)
    world.admit("pods", holding("[]"), old=holding("[]"), subresource=subresource, operation="UPDATE", user=user)


async def test_an_update_that_leaves_it_out_keeps_it(world: World) -> None:
    """`kubectl replace` of a manifest without the annotation, or without any, keeps it."""
    for left_out in (holding(None), pod(nodeName="n")):
        world.admit("pods", left_out, old=holding("[]"), operation="UPDATE", user=User("tenant"))
        assert left_out["metadata"]["annotations"] == {ANNOTATION_INTERFACES: "[]"}


async def test_a_binding_may_say_it_for_a_pod_that_has_none(world: World) -> None:
    def bind(text: str | None, user: User, name: str = "p") -> None:
        metadata: dict[str, Any] = {"name": name, "namespace": "default"}
        if text is not None:
            metadata["annotations"] = {ANNOTATION_INTERFACES: text}
        obj = {"metadata": metadata, "target": {"kind": "Node", "name": "n"}}
        world.admit("pods", obj, subresource="binding", user=user)

    await world.put("pods", pod())
    bind("[]", CONTROLLER)
    bind(None, User("some-scheduler"))
    with pytest.raises(Forbidden, match="set by the controllers only"):
        bind("[]", User("some-scheduler"))
    given = holding('[{"name":"eth0"}]')
    given["metadata"]["name"] = "q"
    await world.put("pods", given)
    with pytest.raises(Forbidden, match="cannot be changed"):
        bind("[]", CONTROLLER, "q")
    bind(None, CONTROLLER, "q")
