"""The server's store is restored from a backup while a node runs: no pod ends, and none starts twice."""

from __future__ import annotations

import json

import msgspec
import pytest

from tarmac.api.identities import RESTORED
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.restored import RESTORED_PATH, RESTORES, RunningReport, running_path
from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, Conflict, Forbidden, NotFound
from tarmac.base.clock import rfc3339
from tarmac.client.targets.untyped import DEPLOYMENTS, INSTANCES, NODES, PODS, WORKLOADS
from tarmac.server.security.users import User
from tarmac.store.interface import FLOOR_STEP, unsplice
from tests.agent.pods.machine import NODE, Machine, play, pod
from tests.controllers.planet import workload

Backup = dict[tuple[str, str], bytes]


def back_up(machine: Machine) -> Backup:
    store = machine.world.store
    return {(bucket, entry.name): unsplice(entry) for bucket in store.buckets() for entry in store.list(bucket).entries}


async def restore(machine: Machine, backup: Backup, *, away: bool = True) -> None:
    """Restore like `tarmac restore`: the server is away, then has the backup's objects at higher revisions."""
    if away:
        machine.unplug_server()
    store = machine.world.store
    now = back_up(machine)
    for bucket, name in now.keys() - backup.keys():
        entry = store.head(bucket, name)
        assert entry is not None
        await store.delete(bucket, name, entry.revision)
    time = rfc3339(machine.world.clock.now())
    backup = {
        **backup,
        RESTORES: json.dumps({"metadata": {"name": "last"}, "time": time}, separators=(",", ":")).encode(),
    }
    for (bucket, name), value in backup.items():
        if bucket == "core/nodes":
            node = json.loads(value)
            node["metadata"].setdefault("annotations", {})[RESTORED] = time
            value = json.dumps(node, separators=(",", ":")).encode()
        entry = store.head(bucket, name)
        if entry is None:
            await store.create(bucket, name, value)
        elif unsplice(entry) != value:
            await store.update(bucket, name, value, entry.revision)
    await store.raise_floor(store.revision + FLOOR_STEP)
    if away:
        machine.plug_server_in()


async def listed(machine: Machine) -> list[JsonObject]:
    return json.loads((await machine.user.call("GET", RESTORED_PATH)).body)["items"]


async def decide(machine: Machine, action: str, name: str) -> str:
    body = json.dumps({"action": action, "namespace": "default", "name": name}).encode()
    return json.loads((await machine.user.call("POST", RESTORED_PATH, body=body)).body)["done"]


async def settled(machine: Machine) -> None:
    """Wait until this node has reported its pods."""

    async def noted() -> bool:
        return (machine.root / "restored").exists()

    await machine.until(noted)


def test_pods_that_the_store_still_knows_go_on_and_nothing_is_asked() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        before, calls = await machine.remember_containers(), len(machine.runtime.calls)
        assert calls
        await restore(machine, back_up(machine))
        await settled(machine)
        await machine.wait(100)
        assert await machine.remember_containers() == before
        assert await listed(machine) == []
        await machine.create("new")
        await machine.phase("Running", "new")

    play(story)


def test_a_pod_that_is_newer_than_the_backup_runs_on_and_is_adopted_without_a_restart() -> None:
    async def story(machine: Machine) -> None:
        backup = back_up(machine)
        made = await machine.create()
        await machine.phase("Running")
        before = await machine.remember_containers()
        await restore(machine, backup)
        await machine.wait(200)
        assert await machine.remember_containers() == before, "a pod that the store does not know runs on"
        [found] = await listed(machine)
        assert (found["name"], found["node"], found["uid"]) == ("web", NODE, made["metadata"]["uid"])
        assert found["why"] == "the restored store has no such pod"
        with pytest.raises(Conflict, match="RestoredConflict: default/web with uid"):
            await machine.create()
        why = json.loads((await machine.user.call("GET", PODS.path("default", "web", "why"))).body)
        assert why["sentence"].startswith("Pod default/web is not in the store: default/web with uid")
        assert why["change"].startswith("Keep the pod with `tarmac restored adopt`")
        await decide(machine, "adopt", "web")
        stored = await machine.get()
        assert stored["metadata"]["uid"] == made["metadata"]["uid"]
        await settled(machine)
        await machine.wait(100)
        assert await machine.remember_containers() == before
        assert (await machine.status())["phase"] == "Running"
        assert await listed(machine) == []
        await machine.pods.delete("web", "default")
        await machine.gone()
        assert await machine.running() == []

    play(story)


def test_an_agent_that_is_started_after_the_restore_ends_nothing_either() -> None:
    async def story(machine: Machine) -> None:
        backup = back_up(machine)
        await machine.create()
        await machine.phase("Running")
        before = await machine.remember_containers()
        await machine.wait(2)
        await machine.kill()
        await restore(machine, backup, away=False)
        await machine.start()
        await machine.wait(100)
        await machine.restart()
        await machine.wait(100)
        assert await machine.remember_containers() == before
        assert [each["name"] for each in await listed(machine)] == ["web"]

    play(story)


@pytest.mark.parametrize("killed", [False, True])
def test_a_node_that_is_newer_than_the_backup_ends_nothing(killed: bool) -> None:
    """The store does not have the Node itself until the agent registers it again."""

    async def story(machine: Machine) -> None:
        backup = {key: each for key, each in back_up(machine).items() if key != ("core/nodes", NODE)}
        await machine.create()
        await machine.phase("Running")
        before = await machine.remember_containers()
        await machine.wait(2)
        if killed:
            await machine.kill()
        await restore(machine, backup, away=not killed)
        if killed:
            await machine.start()
        await machine.wait(100)
        assert await machine.remember_containers() == before, "the Node is not registered yet"
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        await machine.user.resource(NODES).create(node)
        await machine.wait(100)
        assert await machine.remember_containers() == before
        assert [each["name"] for each in await listed(machine)] == ["web"]

    play(story)


def test_a_pod_that_somebody_decides_against_is_ended_as_if_deleted() -> None:
    async def story(machine: Machine) -> None:
        backup = back_up(machine)
        await machine.create()
        await machine.create("other")
        await machine.phase("Running")
        await machine.phase("Running", "other")
        await restore(machine, backup)
        await machine.wait(20)
        assert [each["name"] for each in await listed(machine)] == ["other", "web"]
        await decide(machine, "remove", "web")
        await machine.wait(60)
        assert [each["name"] for each in await listed(machine)] == ["other"]
        assert len(await machine.running()) == 1
        await machine.create()
        await machine.phase("Running")

    play(story)


def test_a_pod_of_the_same_name_waits_until_somebody_has_decided() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        backup = back_up(machine)
        old = (await machine.get())["metadata"]["uid"]
        await machine.pods.delete("web", "default")
        await machine.gone()
        await machine.create()
        await machine.phase("Running")
        before = await machine.remember_containers()
        await restore(machine, backup)
        await machine.wait(100)
        assert await machine.remember_containers() == before, "the pod of the backup is not started as well"
        [found] = await listed(machine)
        assert found["why"] == f"the restored store has it under another uid, {old}"
        await decide(machine, "remove", "web")
        await machine.wait(100)
        after = await machine.remember_containers()
        assert len(after) == 1
        assert after != before, "the pod of the backup has started"
        assert (await machine.get())["metadata"]["uid"] == old

    play(story)


def test_a_pod_that_runs_elsewhere_is_not_started_here() -> None:
    """The backup has it here; since then it has moved, and the other node reports so."""

    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        backup = back_up(machine)
        await machine.pods.delete("web", "default")
        await machine.gone()
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}}
        await machine.user.resource(NODES).create(node)
        backup |= {key: value for key, value in back_up(machine).items() if key == ("core/nodes", "n2")}
        await restore(machine, backup)
        await machine.wait(20)
        assert await machine.running() == [], "the other node has not reported yet"
        time = (await machine.user.resource(NODES).get("n2"))["metadata"]["annotations"][RESTORED]
        other = pod("web", nodeName="n2")
        other["metadata"]["uid"] = "5a0e0e5c-0000-4000-8000-000000000002"
        there = machine.world.reliable(User("system:node:n2", groups=("system:nodes", "system:authenticated")))

        async def tell(*pods: JsonObject) -> None:
            report = msgspec.json.encode(RunningReport(time, list(pods)))
            await there.call("POST", running_path("n2"), body=report)

        await tell(other)
        await machine.wait(100)
        assert await machine.running() == []
        assert [each["node"] for each in await listed(machine)] == ["n2"]
        await tell()
        await machine.wait(20)
        assert await machine.running() == ["main"], "the other node reported its end"

    play(story)


def test_nodes_that_never_answer_hold_nobody_up_for_longer_than_a_minute() -> None:
    async def story(machine: Machine) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "lost"}}
        await machine.user.resource(NODES).create(node)
        await restore(machine, back_up(machine))
        await machine.wait(1)
        await machine.create()
        await machine.wait(10)
        assert await machine.running() == []
        await machine.phase("Running", seconds=80)

    play(story)


def test_pods_that_are_deleted_meanwhile_are_ended() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.create("gone")
        await machine.phase("Running")
        await machine.phase("Running", "gone")
        backup = back_up(machine)
        await machine.create("newer")
        await machine.phase("Running", "newer")
        await restore(machine, backup)
        await machine.wait(20)
        await machine.pods.delete("web", "default")
        await machine.pods.delete("gone", "default", grace=0)
        await machine.wait(60)
        assert len(await machine.running()) == 1, "the pod that the store does not know is left"
        assert [each["name"] for each in await listed(machine)] == ["newer"]

    play(story)


def test_a_node_speaks_for_itself_alone_and_only_after_a_restore() -> None:
    async def story(machine: Machine) -> None:
        body = msgspec.json.encode(RunningReport("2026-11-17T00:00:00Z", [pod("web")]))
        other = machine.world.reliable(User("system:node:n2", groups=("system:nodes", "system:authenticated")))
        own = machine.world.reliable(User(f"system:node:{NODE}", groups=("system:nodes", "system:authenticated")))
        someone = machine.world.reliable(User("jane", groups=("system:authenticated",)))
        for client in (other, someone):
            with pytest.raises(Forbidden):
                await client.call("POST", running_path(NODE), body=body)
        with pytest.raises(Conflict, match="answers to no restore"):
            await own.call("POST", running_path(NODE), body=body)
        with pytest.raises(BadRequest):
            await own.call("POST", running_path(NODE), body=b"{")
        for client in (own, someone):
            with pytest.raises(Forbidden):
                await client.call("GET", RESTORED_PATH)
            with pytest.raises(Forbidden):
                await client.call("POST", RESTORED_PATH, body=b"{}")
        with pytest.raises(NotFound):
            await decide(machine, "adopt", "web")

    play(story)


def _instance_pod(deployment: JsonObject, index: int) -> JsonObject:
    name = f"web-x-{index}"
    labels = {
        "compute.datumapis.com/workload-deployment-uid": deployment["metadata"]["uid"],
        "compute.datumapis.com/instance-index": str(index),
    }
    owner = {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance", "name": name, "controller": True}
    owner["uid"] = f"5a0e0e5c-0000-4000-8000-00000000000{index}"
    return {**pod(name, nodeSelector={LABEL_LOCATION: "dfw"}, metadata={"labels": labels, "ownerReferences": [owner]})}


def test_an_adopted_pod_belongs_to_its_instance_which_is_made_again_if_need_be() -> None:
    async def story(machine: Machine) -> None:
        machine.node["metadata"]["labels"][LABEL_LOCATION] = "dfw"
        owner = await machine.user.resource(WORKLOADS).create(workload(cities=("DFW",)))
        spec = {"workloadRef": {"name": "web", "uid": owner["metadata"]["uid"]}, "placementName": "all"}
        spec |= {"cityCode": "DFW", "template": owner["spec"]["template"]}
        spec["scaleSettings"] = owner["spec"]["placements"][0]["scaleSettings"]
        body = {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "spec": spec}
        body["metadata"] = {"name": "web-x", "namespace": "default"}
        deployments, instances = (machine.user.resource(each) for each in (DEPLOYMENTS, INSTANCES))
        known = await deployments.create(body)
        backup = back_up(machine)
        unknown = {"metadata": {"uid": "5a0e0e5c-0000-4000-8000-000000000009"}}
        for index, deployment in ((0, known), (1, unknown)):
            await machine.pods.create(_instance_pod(deployment, index))
            await machine.phase("Running", f"web-x-{index}")
        before = await machine.remember_containers()
        await restore(machine, backup)
        await machine.wait(20)
        assert "its Instance was made again of its deployment's template" in await decide(machine, "adopt", "web-x-0")
        made = await instances.get("web-x-0", "default")
        assert made["metadata"]["uid"] == "5a0e0e5c-0000-4000-8000-000000000000"
        assert made["metadata"]["ownerReferences"][0]["uid"] == known["metadata"]["uid"]
        [held] = (await machine.get("web-x-0"))["metadata"]["ownerReferences"]
        assert held["uid"] == made["metadata"]["uid"]
        assert "nobody owns it" in await decide(machine, "adopt", "web-x-1")
        assert "ownerReferences" not in (await machine.get("web-x-1"))["metadata"]
        await machine.wait(60)
        assert await machine.remember_containers() == before

    play(story)
