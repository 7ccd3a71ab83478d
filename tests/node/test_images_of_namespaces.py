"""Real nodes fetch, check and boot an operating system of a tenant, or report the reason of a failure."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarmac.apps.cities.removing import underlay_of
from tests.node.planet import GUESTS, Json, Planet, eventually
from tests.node.test_machines import ready_to_boot
from tests.support.guestimages import checksum, qcow2
from tools.cache import ROOT

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

GUEST = GUESTS["first.raw"]
NAME = f"own-{os.getpid()}"


@pytest.fixture(scope="module")
def server(planet: Planet) -> Iterator[str]:
    """Serve the guest at an address of the host that nodes reach."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(GUEST)))
            self.end_headers()
            self.wfile.write(GUEST)

        def log_message(self, format: str, *args: Any) -> None: ...

    host = underlay_of(planet.data_dir).gateways[0]
    with ThreadingHTTPServer((host, 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://{host}:{http.server_port}/os.raw"
        http.shutdown()


def image(url: str, content: bytes = GUEST) -> Json:
    spec = {"size": "1Gi", "format": "raw", "source": {"url": url}, "checksum": checksum(content)}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "LocalMachineImage",
        "metadata": {"name": NAME},
        "spec": spec,
    }


@pytest.fixture
def workload(planet: Planet) -> Iterator[Json]:
    """The smallest machine, with the image of its namespace."""
    ready_to_boot(planet, "dfw-0")
    example = yaml.safe_load((ROOT / "examples" / "virtualmachine-minimum.yaml").read_text())
    example["metadata"]["name"] = NAME
    example["spec"]["placements"][0]["cityCodes"] = ["DFW"]
    spec = example["spec"]["template"]["spec"]
    spec["volumes"][0]["disk"]["template"]["spec"]["populator"]["image"]["name"] = f"./{NAME}"
    yield example
    planet.kubectl.run("delete", "workload", NAME, "--ignore-not-found", "--wait", timeout=90)
    planet.kubectl.run("delete", "localmachineimage", NAME, "--ignore-not-found")
    eventually(lambda: not pods(planet), 60, "the end of its pods")


def pods(planet: Planet) -> list[Json]:
    return planet.get("pods", "-l", f"compute.datumapis.com/workload-name={NAME}")["items"]


def told(planet: Planet) -> str:
    """Return the readiness messages of its instances."""
    label = f"compute.datumapis.com/workload-name={NAME}"
    return planet.kubectl("get", "instances", "-l", label, "-o", "jsonpath={.items[*].status.conditions[*].message}")


def test_a_machine_boots_the_system_that_its_namespace_brought(planet: Planet, workload: Json, server: str) -> None:
    planet.apply(workload, image(server))
    planet.wait(f"workload/{NAME}", "jsonpath={.status.readyReplicas}=1", 120)
    [pod] = pods(planet)
    eventually(lambda: planet.kubectl("logs", pod["metadata"]["name"]).startswith("first\n"), 30, "its first line")
    assert pod["spec"]["containers"][0]["image"] == f"default:{NAME}"
    kept = list(planet.data_dir.glob("cities/dfw/agent/machine-images/*.raw"))
    digits = checksum(GUEST).removeprefix("sha256:")
    assert [each.name for each in kept if digits in each.name and not each.name.startswith(digits)]


def test_a_machine_boots_an_uploaded_system_once_its_account_may_pull_it(
    planet: Planet, workload: Json, tmp_path: Path
) -> None:
    if not planet.registry:
        pytest.fail("NOT TESTED: docker-registry is missing; `make registry` fetches it", pytrace=False)
    disk = tmp_path / "os.qcow2"
    disk.write_bytes(qcow2(GUEST))
    planet.tarmac("image", "upload", NAME, str(disk), "-n", "default", "--registry", f"127.0.0.1:{planet.registry}")
    planet.apply(workload)
    eventually(lambda: f"may not pull from default/{NAME}" in told(planet), 60, f"a refusal; there is {told(planet)!r}")
    grant = ("rolebinding", NAME, "--clusterrole=tarmac:image-puller", "--group=system:serviceaccounts:default")
    planet.kubectl("create", *grant)
    try:
        planet.wait(f"workload/{NAME}", "jsonpath={.status.readyReplicas}=1", 120)
        [pod] = pods(planet)
        eventually(lambda: planet.kubectl("logs", pod["metadata"]["name"]).startswith("first\n"), 30, "its first line")
    finally:
        planet.kubectl("delete", "rolebinding", NAME)


@pytest.mark.parametrize(
    ("url", "content", "message"),
    [
        ("http://127.0.0.1:6443/os", b"of the server", "is fetched from public addresses only"),
        ("http://169.254.169.254/latest", b"of the metadata", "is fetched from public addresses only"),
        ("", b"another file", "the file's sum is"),
    ],
    ids=["loopback", "metadata", "sum"],
)
def test_refused_images_are_reported_to_the_user(
    planet: Planet, workload: Json, server: str, url: str, content: bytes, message: str
) -> None:
    planet.apply(workload, image(url or server, content))
    eventually(lambda: message in told(planet), 60, f"the message {message!r}; there is {told(planet)!r}")
    answer = planet.kubectl.run("get", "workload", NAME, "-o", "jsonpath={.status.readyReplicas}")
    assert answer.out in ("", "0")
    assert not list(Path(planet.data_dir).glob("cities/dfw/agent/machine-images/*.part")) or url == ""
