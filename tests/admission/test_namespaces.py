"""No object is created in a missing or terminating namespace."""

from __future__ import annotations

import pytest

from tarmac.api.status import Forbidden, NotFound
from tests.admission.world import World


def config(namespace: str) -> dict[str, dict[str, str]]:
    return {"metadata": {"name": "c", "namespace": namespace}}


async def test_a_missing_namespace_is_not_found(world: World) -> None:
    with pytest.raises(NotFound) as caught:
        world.admit("configmaps", config("nope"))
    assert caught.value.message == 'namespaces "nope" not found'


async def test_a_dying_namespace_takes_nothing_new(world: World) -> None:
    await world.put("namespaces", {"metadata": {"name": "old"}, "status": {"phase": "Terminating"}})
    with pytest.raises(Forbidden) as caught:
        world.admit("configmaps", config("old"))
    assert caught.value.message == (
        'configmaps "c" is forbidden: unable to create new content in namespace old because it is being terminated'
    )
    assert caught.value.details is not None
    assert caught.value.details["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace old is being terminated",
            "field": "metadata.namespace",
        }
    ]


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_the_systems_own_namespaces_stay(world: World, name: str) -> None:
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        world.admit("namespaces", None, old={"metadata": {"name": name}}, operation="DELETE")
    world.admit("namespaces", None, old={"metadata": {"name": "mine"}}, operation="DELETE")
