"""Only the controller of Instances sets the definition of a virtual machine, and it sets it once."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.names import (
    ANNOTATION_CLOUD_INIT,
    ANNOTATION_MACHINE_IMAGES,
    ANNOTATION_MOUNTS,
    MACHINE_ANNOTATIONS,
)
from tarmac.api.identities import controller_user
from tarmac.api.status import Forbidden
from tarmac.server.security.users import User
from tests.admission.world import World, pod

CONTROLLER = User(controller_user("instance"))
ADMINISTRATOR = User("root", groups=("system:masters",))
NODE = User("system:node:n", groups=("system:nodes",))
TENANT = User("tenant")
HOST_FILE = '{"mine":{"size":"1Gi","format":"raw","source":{"file":"shadow"}}}'


def holding(**annotations: str) -> dict[str, Any]:
    made = pod(nodeName="n")
    made["metadata"]["annotations"] = annotations
    return made


@pytest.mark.parametrize("annotation", MACHINE_ANNOTATIONS)
@pytest.mark.parametrize(
    "user", [TENANT, ADMINISTRATOR, User(controller_user("deployment"))], ids=lambda each: each.name
)
async def test_a_user_cannot_have_a_file_of_the_node_read_into_a_machine(
    world: World, annotation: str, user: User
) -> None:
    with pytest.raises(Forbidden, match=f"{annotation} is set by the controllers only"):
        world.admit("pods", holding(**{annotation: HOST_FILE}), user=user)
    world.admit("pods", holding(**{annotation: HOST_FILE}), user=CONTROLLER)


@pytest.mark.parametrize("subresource", ["", "status", "ephemeralcontainers"])
async def test_a_pod_that_is_there_gets_no_other_image(world: World, subresource: str) -> None:
    user = NODE if subresource == "status" else TENANT
    old = holding(**{ANNOTATION_MACHINE_IMAGES: "{}"})
    new = holding(**{ANNOTATION_MACHINE_IMAGES: HOST_FILE})
    with pytest.raises(Forbidden, match="cannot be changed once it is set"):
        world.admit("pods", new, old=old, subresource=subresource, operation="UPDATE", user=user)
    added = holding(**{ANNOTATION_MACHINE_IMAGES: "{}", ANNOTATION_CLOUD_INIT: "{}"})
    with pytest.raises(Forbidden, match="set by the controllers only"):
        world.admit("pods", added, old=old, subresource=subresource, operation="UPDATE", user=user)
    world.admit("pods", old, old=old, subresource=subresource, operation="UPDATE", user=user)


async def test_a_binding_brings_none(world: World) -> None:
    await world.put("pods", pod())
    metadata = {"name": "p", "namespace": "default", "annotations": {ANNOTATION_MOUNTS: "{}"}}
    obj = {"metadata": metadata, "target": {"kind": "Node", "name": "n"}}
    with pytest.raises(Forbidden, match="set by the controllers only"):
        world.admit("pods", obj, subresource="binding", user=User("some-scheduler"))
