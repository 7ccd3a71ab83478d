"""HostKernel checks the right to use the host's kernel."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.identities import controller_user
from tarmac.api.status import Forbidden
from tarmac.server.security.users import User
from tests.admission.world import ADMIN, Object, World, pod

JANE = User("jane", groups=("system:authenticated",))
NODE = User("system:node:n", groups=("system:nodes", "system:authenticated"))
NO_NODE = User("bob", groups=("system:nodes", "system:authenticated"))
NEEDS = 'needs the right "use"'


def annotated(plural: str, name: str | None) -> Object:
    """An object that names a runtime class in the field of its kind."""
    annotations: Object = {"annotations": {"compute.datumapis.com/runtime-class": name}} if name is not None else {}
    metadata: Object = {"name": "x", "namespace": "default"}
    if plural == "instances":
        return {"metadata": {**metadata, **annotations}, "spec": {}}
    return {"metadata": metadata, "spec": {"template": {"metadata": annotations, "spec": {}}}}


@pytest.mark.parametrize("plural", ["workloads", "workloaddeployments", "instances"])
@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        (None, "runc", True),
        ("gvisor", "runc", True),
        ("other", "runc", True),
        ("runc", "runc", False),
        ("runc", None, False),
        ("runc", "gvisor", False),
        (None, "", False),
        (None, "nobody-made-it", True),
    ],
)
async def test_an_update_is_asked_about_what_it_changes(
    world: World, plural: str, before: str | None, after: str | None, refused: bool
) -> None:
    def write(user: User, subresource: str = "") -> None:
        new, old = annotated(plural, after), annotated(plural, before)
        world.admit(plural, new, "HostKernel", old=old, user=user, subresource=subresource)

    write(ADMIN)
    for subresource in ("", "status"):
        if refused:
            with pytest.raises(Forbidden, match=NEEDS):
                write(JANE, subresource)
        else:
            write(JANE, subresource)


async def test_a_node_shows_what_it_runs_already(world: World) -> None:
    shown: dict[str, Any] = pod(nodeName="n", hostNetwork=True)
    made = world.admit("pods", shown, "RuntimeClass", "HostKernel", user=NODE).obj or {}
    assert "runtimeClassName" not in made["spec"]
    assert "runtimeClassName" not in (world.admit("pods", pod(), "RuntimeClass", user=NODE).obj or {})["spec"]


async def test_a_member_of_the_nodes_that_is_no_node_is_anybody(world: World) -> None:
    made = world.admit("pods", pod(), "RuntimeClass", "HostKernel", user=NO_NODE).obj or {}
    assert made["spec"]["runtimeClassName"] == "gvisor"
    with pytest.raises(Forbidden, match=NEEDS):
        world.admit("pods", pod(runtimeClassName="runc"), "HostKernel", user=NO_NODE)


async def test_a_controller_s_name_alone_gives_nothing(world: World) -> None:
    with pytest.raises(Forbidden, match=NEEDS):
        world.admit("pods", pod(runtimeClassName="runc"), "HostKernel", user=User(controller_user("instance")))


async def test_without_the_class_nothing_runs_anywhere_else(world: World) -> None:
    await world.remove("runtimeclasses", "gvisor")
    with pytest.raises(Forbidden, match='RuntimeClass "gvisor" not found'):
        world.admit("pods", pod(), user=JANE)
