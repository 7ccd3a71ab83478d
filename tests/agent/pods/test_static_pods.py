"""Static pods: manifests on the node, and their mirror pods."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from tarmac.agent.network.networkadmission import unconnected
from tarmac.api.mirrorpods import MIRROR
from tarmac.api.schema import JsonObject
from tests.agent.pods.machine import IMAGE, Machine, play

MANIFEST: JsonObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "proxy"},
    "spec": {
        "containers": [{"name": "main", "image": IMAGE}],
        "hostNetwork": True,
        "automountServiceAccountToken": False,
    },
}
NAME = "proxy-n1"


def put(machine: Machine, image: str = IMAGE, **more: object) -> None:
    folder = machine.root / "manifests"
    folder.mkdir(exist_ok=True)
    spec = {**MANIFEST["spec"], "containers": [{"name": "main", "image": image}], **more}
    (folder / "proxy.yaml").write_text(yaml.safe_dump({**MANIFEST, "spec": spec}))


def test_a_manifest_runs_and_is_shown() -> None:
    async def story(machine: Machine) -> None:
        await machine.allow_everything()
        put(machine)
        await machine.wait(25)
        status = await machine.phase("Running", NAME)
        assert status["podIP"] == "192.0.2.1"
        mirror = await machine.get(NAME)
        assert mirror["metadata"]["annotations"][MIRROR]
        assert mirror["metadata"]["ownerReferences"][0]["kind"] == "Node"
        (found,) = machine.manager.pods()
        assert found["metadata"]["uid"] != mirror["metadata"]["uid"]
        before = await machine.id()
        await machine.pods.delete(NAME, "default", grace=0)
        await machine.wait(5)
        assert (await machine.get(NAME))["metadata"]["uid"] != mirror["metadata"]["uid"], "the mirror is created again"
        await machine.phase("Running", NAME)
        assert await machine.id() == before, "the container is not"

    play(story)


def test_a_static_pod_needs_no_server() -> None:
    async def story(machine: Machine) -> None:
        put(machine)
        await machine.start(server=False)
        await machine.wait(10)
        assert await machine.running() == ["main"]
        await machine.restart()
        await machine.wait(100)
        assert await machine.running() == ["main"]
        assert machine.calls("create_container") == 1

    play(story, start=False)


@pytest.mark.parametrize(("interval", "noticed"), [(3.0, True), (60.0, False)])
def test_a_new_manifest_is_noticed_after_the_interval_of_the_configuration(interval: float, noticed: bool) -> None:
    async def story(machine: Machine) -> None:
        machine.settings = replace(machine.settings, manifest_interval=interval)
        await machine.start()
        await machine.allow_everything()
        await machine.wait(5)
        put(machine)
        await machine.wait(10)
        assert bool(machine.manager.pods()) is noticed

    play(story, start=False)


def test_a_changed_manifest_replaces_the_pod_and_a_removed_one_ends_it() -> None:
    async def story(machine: Machine) -> None:
        await machine.allow_everything()
        machine.runtime.add_image("example.com/app:2")
        put(machine)
        await machine.wait(25)
        put(machine, "example.com/app:2")
        await machine.wait(30)
        status = await machine.phase("Running", NAME)
        assert status["containerStatuses"][0]["image"].endswith(("app:2", status["containerStatuses"][0]["imageID"]))
        assert await machine.running() == ["main"]
        (machine.root / "manifests" / "proxy.yaml").unlink()
        await machine.gone(NAME)
        assert await machine.running() == []
        assert machine.manager.pods() == []

    play(story)


def test_one_that_would_need_an_address_from_the_server_is_refused_until_its_manifest_changes() -> None:
    async def story(machine: Machine) -> None:
        machine.admit_checks.append(unconnected)
        await machine.allow_everything()
        put(machine, hostNetwork=False)
        await machine.wait(25)
        status = await machine.phase("Failed", NAME)
        assert status["reason"] == "NetworkNotAvailable"
        assert "set spec.hostNetwork: true in the manifest" in status["message"]
        assert machine.calls("run_sandbox") == 0
        put(machine)
        await machine.wait(30)
        await machine.phase("Running", NAME)

    play(story)


def test_files_without_a_pod_are_ignored() -> None:
    async def story(machine: Machine) -> None:
        folder = machine.root / "manifests"
        folder.mkdir()
        (folder / "a.yaml").write_text("kind: ConfigMap\nmetadata: {name: a}\n")
        (folder / "b.yaml").write_text("{{{")
        (folder / "c.txt").write_text("hello")
        await machine.wait(100)
        assert machine.manager.pods() == []

    play(story)
