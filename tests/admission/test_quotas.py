"""A namespace holds no more than its quotas say."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.status import Forbidden
from tarmac.server.encoding import encode_object
from tests.admission.world import Object, World, asking, pod

QUOTA = "ResourceQuota"
BUCKET = "core/resourcequotas"


async def _quota(world: World, hard: dict[str, str], **spec: Any) -> None:
    metadata = {"name": "q", "namespace": "default"}
    await world.put("resourcequotas", {"metadata": metadata, "spec": {"hard": hard, **spec}})
    world.admit("configmaps", {"metadata": {"name": "first", "namespace": "default"}}, QUOTA, dry_run=True)
    await world.settle()


def used(world: World) -> dict[str, str]:
    return (world.reader.get(BUCKET, "default/q") or {})["status"]["used"]


async def test_writes_above_the_quota_are_refused(world: World) -> None:
    await _quota(world, {"pods": "2", "requests.cpu": "1"})
    await world.put("pods", pod("a", containers=asking(requests={"cpu": "700m"})))
    with pytest.raises(Forbidden) as caught:
        world.admit("pods", pod("b", containers=asking(requests={"cpu": "500m"})), QUOTA)
    assert caught.value.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=700m, '
        "limited: requests.cpu=1"
    )
    assert "causes" not in (caught.value.details or {}), "as Kubernetes says it"
    world.admit("pods", pod("c", containers=asking(requests={"cpu": "300m"})), QUOTA)


async def test_status_follows_what_is_there(world: World) -> None:
    await _quota(world, {"pods": "5", "configmaps": "5", "limits.memory": "1Gi"})
    assert used(world) == {"pods": "0", "configmaps": "0", "limits.memory": "0"}
    await world.put("pods", pod("a", containers=asking(limits={"memory": "128Mi"})))
    await world.put("configmaps", {"metadata": {"name": "c", "namespace": "default"}})
    await world.settle()
    assert used(world) == {"pods": "1", "configmaps": "1", "limits.memory": "128Mi"}
    await world.remove("pods", "default/a")
    await world.settle()
    assert used(world) == {"pods": "0", "configmaps": "1", "limits.memory": "0"}


async def test_an_accepted_write_counts_before_it_is_visible(world: World) -> None:
    await _quota(world, {"pods": "1"})
    resource, first = world.resource("pods"), pod("a")
    world.admit("pods", first, QUOTA)
    pending = world.store.create(resource.bucket, "default/a", encode_object(first, resource))
    with pytest.raises(Forbidden, match="used: pods=1, limited: pods=1"):
        world.admit("pods", pod("b"), QUOTA)
    await pending


async def test_a_write_that_failed_holds_nothing(world: World) -> None:
    await _quota(world, {"pods": "1"})
    world.admit("pods", pod("a"), QUOTA)  # and then the store refused it
    world.admit("pods", pod("b"), QUOTA)


async def test_a_dry_run_holds_nothing(world: World) -> None:
    await _quota(world, {"pods": "1"})
    world.admit("pods", pod("a"), QUOTA, dry_run=True)
    world.admit("pods", pod("b"), QUOTA)


async def test_limited_resources_must_be_said(world: World) -> None:
    await _quota(world, {"limits.cpu": "1", "requests.memory": "1Gi"})
    with pytest.raises(Forbidden) as caught:
        world.admit("pods", pod(), QUOTA)
    assert caught.value.message == (
        'pods "p" is forbidden: failed quota: q: must specify limits.cpu for: c; requests.memory for: c'
    )


async def test_scopes_choose_pods(world: World) -> None:
    await _quota(world, {"pods": "0"}, scopes=["BestEffort"])
    world.admit("pods", pod(containers=asking(requests={"cpu": "1"})), QUOTA)
    with pytest.raises(Forbidden, match="exceeded quota"):
        world.admit("pods", pod(), QUOTA)


async def test_any_kind_can_be_counted(world: World) -> None:
    await _quota(world, {"count/leases.coordination.k8s.io": "0", "count/workloads.compute.datumapis.com": "0"})
    lease = {"metadata": {"name": "l", "namespace": "default"}}
    with pytest.raises(Forbidden, match=r"requested: count/leases.coordination.k8s.io=1"):
        world.admit("leases", lease, QUOTA)


async def test_resizing_is_charged(world: World) -> None:
    await _quota(world, {"requests.cpu": "1"})
    old = await world.put("pods", pod("a", containers=asking(requests={"cpu": "600m"})))
    grown: Object = pod("a", containers=asking(requests={"cpu": "1100m"}))
    with pytest.raises(Forbidden, match=r"requested: requests.cpu=500m, used: requests.cpu=600m"):
        world.admit("pods", grown, QUOTA, old=old, subresource="resize")


async def test_finished_pods_are_free(world: World) -> None:
    await _quota(world, {"pods": "1"})
    await world.put("pods", {**pod("done"), "status": {"phase": "Succeeded"}})
    world.admit("pods", pod("next"), QUOTA)


async def test_instances_over_quota_pass_and_wait_behind_their_gate(world: World) -> None:
    await _quota(world, {"count/instances.compute.datumapis.com": "0"})
    world.admit("instances", {"metadata": {"name": "i", "namespace": "default"}, "spec": {}}, QUOTA)


async def test_an_instance_behind_the_gate_uses_nothing_yet(world: World) -> None:
    name = "count/instances.compute.datumapis.com"
    await _quota(world, {name: "1"})
    spec: Object = {"controller": {"templateHash": "1", "schedulingGates": [{"name": "Quota"}]}}
    waiting: Object = {"metadata": {"name": "i", "namespace": "default"}, "spec": spec}
    through: Object = {"metadata": {"name": "j", "namespace": "default"}, "spec": {}}
    for instance in (waiting, through):
        await world.put("instances", instance)
    await world.settle()
    assert used(world) == {name: "1"}
