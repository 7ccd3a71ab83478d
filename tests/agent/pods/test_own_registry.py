"""Images of the platform's registry are for pods whose account may pull them, also if they are already on the node."""

from __future__ import annotations

import base64
import json

import pytest

from tarmac.agent.containers.repositories import guarded
from tarmac.agent.model.pod import AgentPod
from tarmac.client.targets.target import dynamic
from tarmac.runtimes.fake import RegistryImage
from tarmac.runtimes.interface import Image
from tarmac.volumes.interface import SourceUnavailable
from tests.agent.pods.machine import Machine, play, pod
from tests.support.access import no_registry

APP = "registry.tarmac.local/team-a/app:1"
BC = "registry.tarmac.local/b/c"
RBAC = "rbac.authorization.k8s.io/v1"
REFUSED = (
    'the service account "default/default" may not pull from team-a/app: '
    'it needs the verb pull on repositories.images.tarmac.dev in the namespace "team-a"'
)


async def allow(machine: Machine) -> None:
    """Let the pods of the namespace `default` pull images of `team-a`."""
    namespaces = machine.user.resource(dynamic("v1", "namespaces", "Namespace", namespaced=False))
    await namespaces.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": "pulling"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tarmac:image-puller"},
        "subjects": [
            {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts:default"}
        ],
    }
    await machine.user.resource(dynamic(RBAC, "rolebindings", "RoleBinding")).create(binding, namespace="team-a")


def test_a_pod_pulls_with_the_identity_of_its_account() -> None:
    async def story(machine: Machine) -> None:
        await allow(machine)
        token = "token-0/web/registry.tarmac.local/600"
        machine.runtime.registry[APP] = RegistryImage(username="default", password=token)
        await machine.create(container={"image": APP})
        await machine.phase("Running")

    play(story)


def test_a_pod_without_permission_is_refused_without_a_registry_request() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.registry[APP] = RegistryImage()
        await machine.create(container={"image": APP})
        assert (await machine.waits("ErrImagePull"))["message"] == REFUSED
        assert machine.calls("pull") == 0
        await allow(machine)
        await machine.phase("Running", seconds=120)

    play(story)


def test_an_image_pulled_for_another_pod_needs_its_own_permission() -> None:
    async def story(machine: Machine) -> None:
        digest = machine.runtime.add_image(APP)
        machine.runtime.registry[APP] = RegistryImage(username="team-a", password="theirs")
        await machine.create("named", container={"image": APP, "imagePullPolicy": "IfNotPresent"})
        assert (await machine.waits("ErrImagePull", "named"))["message"] == REFUSED
        await machine.create("never", container={"image": APP, "imagePullPolicy": "Never"})
        assert (await machine.waits("ErrImageNeverPull", "never"))["message"] == (
            f'Container image "{APP}" is present with pull policy of Never but does not have the proper credentials '
            f"to access the image: {REFUSED}"
        )
        await machine.create("digest", container={"image": digest, "imagePullPolicy": "Never"})
        assert REFUSED in (await machine.waits("ErrImageNeverPull", "digest"))["message"]
        assert await machine.running() == []

    play(story)


def test_a_pod_with_permission_uses_the_image_on_the_node() -> None:
    async def story(machine: Machine) -> None:
        digest = machine.runtime.add_image(APP)
        await allow(machine)
        for name, image in (("named", APP), ("digest", digest)):
            await machine.create(name, container={"image": image, "imagePullPolicy": "Never"})
            await machine.phase("Running", name)

    play(story)


def test_a_pull_secret_of_ones_own_is_shown_to_the_registry_although_the_image_is_here() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.add_image(APP)
        machine.runtime.registry[APP] = RegistryImage(username="me", password="open sesame")
        auths = {"auths": {"registry.tarmac.local": {"auth": base64.b64encode(b"me:open sesame").decode()}}}
        data = {".dockerconfigjson": base64.b64encode(json.dumps(auths).encode()).decode()}
        machine.sources.secrets["default/registry"] = {"data": data}
        container = {"image": APP, "imagePullPolicy": "IfNotPresent"}
        await machine.create(imagePullSecrets=[{"name": "registry"}], container=container)
        await machine.phase("Running")
        assert machine.calls("pull") == 1

    play(story)


def test_a_crash_is_mended_while_the_server_is_away() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.add_image(APP)
        await allow(machine)
        await machine.create(container={"image": APP, "imagePullPolicy": "IfNotPresent"})
        await machine.phase("Running")
        first = await machine.id()
        machine.unplug_server()
        await machine.runtime.stop_container(first, 0)

        async def again() -> bool:
            return await machine.running() == ["main"] and await machine.id() != first

        await machine.until(again, 60)

    play(story)


async def test_nobody_is_let_in_while_nobody_can_be_asked() -> None:
    here = Image("sha256:1", (APP,), (), 1)
    with pytest.raises(SourceUnavailable, match="cannot say who may pull from team-a/app"):
        await no_registry().refusal(APP, here, AgentPod({**pod(), "metadata": {**pod()["metadata"], "uid": "u"}}))


@pytest.mark.parametrize(
    ("asked", "names", "needed"),
    [
        (APP, (APP,), ["registry.tarmac.local/team-a/app"]),
        ("registry.tarmac.local:5000/team-a/app", (APP,), ["registry.tarmac.local:5000/team-a/app"]),
        ("REGISTRY.tarmac.local/team-a/app", (APP,), ["REGISTRY.tarmac.local/team-a/app"]),
        ("docker.io/library/app:1", ("docker.io/library/app:1", APP), []),  # loaded by the node's owner, for every pod
        ("sha256:1", ("docker.io/library/app:1", APP), []),
        ("sha256:1", (APP, f"{BC}:2"), [BC, APP.partition(":")[0]]),
        ("sha256:1", (), []),
    ],
)  # fmt: skip
def test_an_image_is_guarded_by_each_of_its_repositories(asked: str, names: tuple[str, ...], needed: list[str]) -> None:
    assert guarded(asked, Image("sha256:1", names, (), 1)) == needed


def test_a_name_without_a_namespace_is_nobodys() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.add_image("registry.tarmac.local/app:1")
        await machine.create(container={"image": "registry.tarmac.local/app:1"})
        assert (
            "in registry.tarmac.local they are called NAMESPACE/NAME"
            in (await machine.waits("ErrImagePull"))["message"]
        )

    play(story)
