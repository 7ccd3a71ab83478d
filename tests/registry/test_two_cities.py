"""A pushed image runs in two cities, for users with the right to pull it; a new registry needs no restart."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.repositories import REGISTRY
from tests.node.planet import Planet, busybox, down, eventually
from tests.node.planet import pod as plain_pod
from tests.node.test_own_images import platform_files
from tests.registry.client import Image, image_of
from tests.registry.conftest import Place, registry_or_loud
from tests.support.ports import free_ports
from tests.support.registry import Registry
from tests.support.tarmac_process import TarmacProcess
from tools.oci import Entry, write_image
from tools.oci import Image as Layout

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

NAME = f"{REGISTRY}/team-a/mine:1"


@pytest.fixture(scope="module")
def cities(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    registry_or_loud()
    [port] = free_ports(1)
    directory = tmp_path_factory.mktemp("planet") / "data"
    flags = ("--runtime", "containerd", "--cities", "DFW,LHR", "--registry", str(port))
    try:
        with TarmacProcess(directory, *flags, command="up") as process:
            yield Place(process, port)
    finally:
        done = down(directory)
        assert done.returncode == 0, f"tarmac down left something: {done.stderr}"


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = "#!/bin/sh\necho this is mine\ntrap 'exit 0' TERM\nsleep 3600 & wait\n"
    layers = [list(platform_files()), [Entry("app", script.encode())]]
    target = tmp_path_factory.mktemp("mine") / "mine.tar"
    write_image(Layout("mine:1", layers, entrypoint=("/app",), environment={"PATH": "/bin"}), target)
    return target


def workload(image: str) -> dict[str, Any]:
    runtime = {
        "resources": {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "100m", "memory": "64Mi"}},
        "sandbox": {"containers": [{"name": "main", "image": image}]},
    }
    template = {"spec": {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}]}}
    placement = {"name": "all", "cityCodes": ["DFW", "LHR"], "scaleSettings": {"minReplicas": 1}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "mine", "namespace": "team-a"},
        "spec": {"template": template, "placements": [placement]},
    }


def waiting(planet: Planet, namespace: str, name: str) -> str:
    status = planet.get("pod", name, "-n", namespace).get("status") or {}
    return str([each["state"].get("waiting") for each in status.get("containerStatuses") or ()])


def on_one_node(planet: Planet, namespace: str, name: str, image: str, policy: str, **spec: Any) -> None:
    container = {"name": "main", "image": image, "imagePullPolicy": policy}
    made = plain_pod(name, container, nodeName="dfw-0", **spec)
    made["metadata"]["namespace"] = namespace
    planet.apply(made)


def test_a_pushed_image_runs_in_two_cities_and_not_in_other_namespaces(cities: Place, mine: Path) -> None:
    planet = Planet(cities.process, cities.process.data_dir.parent)
    cities.namespace("team-a")
    cities.namespace("team-b")
    builder = cities.person("team-a", "builder", "tarmac:image-pusher")
    image: Image = image_of(mine)
    assert builder.push(image, "team-a/mine", "1").status == 201
    cities.apply(workload(NAME))

    def names() -> list[str]:
        return cities.kubectl("get", "pods", "-n", "team-a", "-o", "name").split()

    eventually(lambda: len(names()) >= 1, 60, "an instance")
    refusal = 'the service account "team-a/default" may not pull from team-a/mine'
    eventually(lambda: refusal in waiting(planet, "team-a", names()[0].partition("/")[2]), 60, "a clear refusal")
    group = "--group=system:serviceaccounts:team-a"
    cities.kubectl("create", "rolebinding", "pull", "--clusterrole=tarmac:image-puller", group, "-n", "team-a")

    def says() -> bool:
        found = names()
        logs = [cities.kubectl.run("logs", "-n", "team-a", each).out for each in found]
        return len(found) == 2 and all("this is mine" in each for each in logs)

    eventually(says, 120, "it runs in two cities")
    on_one_node(planet, "team-a", "ported", NAME.replace(REGISTRY, f"{REGISTRY}:{cities.port}"), "Always")
    planet.kubectl("wait", "--for=condition=Ready", "pod/ported", "-n", "team-a", "--timeout=25s")
    neighbours(planet, cities, image)


def neighbours(planet: Planet, cities: Place, image: Image) -> None:
    """Another tenant's pods on the same node, which has the image by now."""
    refusal = 'the service account "team-b/default" may not pull from team-a/mine'
    identity = json.loads(image.manifest)["config"]["digest"]
    with_port = NAME.replace(REGISTRY, f"{REGISTRY}:{cities.port}")
    by_digest = f"{NAME.rpartition(':')[0]}@{image.digest}"
    tries = {
        "present": (NAME, "IfNotPresent"),
        "never": (NAME, "Never"),
        "identity": (identity, "Never"),
        "digest": (by_digest, "IfNotPresent"),
        "port": (with_port, "Always"),
    }
    for name, (reference, policy) in tries.items():
        on_one_node(planet, "team-b", name, reference, policy)
    for name in tries:
        eventually(lambda name=name: refusal in waiting(planet, "team-b", name), 60, f"{name} is refused")
    volume = {"name": "theirs", "image": {"reference": NAME}}
    viewer = plain_pod("viewer", busybox(), nodeName="dfw-0", volumes=[volume])
    viewer["spec"]["containers"][0]["volumeMounts"] = [{"name": "theirs", "mountPath": "/theirs"}]
    viewer["metadata"]["namespace"] = "team-b"
    planet.apply(viewer)
    eventually(lambda: refused(cities, "viewer", refusal), 60, "a volume of it is refused")
    # A wrong secret does not help, a right one does, with any rights of the pod's account.
    for name, password in (("wrong", "not a token"), ("right", token(cities))):
        secret(planet, cities, name, password)
        on_one_node(planet, "team-b", name, NAME, "IfNotPresent", imagePullSecrets=[{"name": name}])
    planet.kubectl("wait", "--for=condition=Ready", "pod/right", "-n", "team-b", "--timeout=25s")
    eventually(lambda: "ImagePull" in waiting(planet, "team-b", "wrong"), 60, "a wrong secret is refused")


def refused(cities: Place, name: str, refusal: str) -> bool:
    events = json.loads(cities.kubectl("get", "events", "-n", "team-b", "-o", "json"))["items"]
    return any(each["involvedObject"]["name"] == name and refusal in each["message"] for each in events)


def token(cities: Place) -> str:
    return cities.kubectl("create", "token", "builder", "-n", "team-a", f"--audience={REGISTRY}").strip()


def secret(planet: Planet, cities: Place, name: str, password: str) -> None:
    auth = base64.b64encode(f"anybody:{password}".encode()).decode()
    data = {".dockerconfigjson": json.dumps({"auths": {REGISTRY: {"auth": auth}}})}
    metadata = {"name": name, "namespace": "team-b"}
    kind = "kubernetes.io/dockerconfigjson"
    planet.apply({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": metadata, "stringData": data})


def test_another_registry_is_known_as_soon_as_a_file_names_it(cities: Place, mine: Path, tmp_path: Path) -> None:
    planet = Planet(cities.process, cities.process.data_dir.parent)
    other = Registry(tmp_path / "other")
    other.start()
    try:
        other.push(mine, "tools/mine", "1")
        folder = cities.process.data_dir / "cities" / "dfw" / "certs.d" / "other.example"
        folder.mkdir()
        (folder / "hosts.toml").write_text(f'server = "http://{other.address}"\n[host."http://{other.address}"]\n')
        on_one_node(planet, "default", "later", "other.example/tools/mine:1", "Always")
        planet.wait("pod/later", "condition=Ready", 60)
    finally:
        other.stop()
        planet.remove("later")
