"""Machine images of a namespace: its own machines wait for them, and other namespaces do not see them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarmac.api.compute.names import ANNOTATION_MACHINE_IMAGES
from tarmac.api.status import Forbidden
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NAMESPACES, PODS, VOLUME_CLAIMS
from tests.controllers.planet import Planet, play

EXAMPLE = Path(__file__).parents[2] / "examples" / "virtualmachine-minimum.yaml"
API = "compute.datumapis.com/v1alpha"
WORKLOADS = dynamic(API, "workloads", "Workload")
INSTANCES = dynamic(API, "instances", "Instance")
IMAGES = dynamic(API, "localmachineimages", "LocalMachineImage")


def machine(storage: str = "") -> dict[str, Any]:
    body = yaml.safe_load(EXAMPLE.read_text())
    body["spec"]["placements"][0]["cityCodes"] = ["DFW"]
    disk = body["spec"]["template"]["spec"]["volumes"][0]["disk"]["template"]["spec"]
    disk["populator"]["image"]["name"] = "./os"
    if storage:
        disk["resources"] = {"requests": {"storage": storage}}
    return body


def image(**spec: Any) -> dict[str, Any]:
    stated = {"size": "2Gi", "format": "raw", "source": {"url": "https://example.com/os.raw"}, **spec}
    stated["checksum"] = f"sha256:{7:064}"
    return {"apiVersion": API, "kind": "LocalMachineImage", "metadata": {"name": "os"}, "spec": stated}


async def ready(planet: Planet, namespace: str = "default") -> list[tuple[str, str]]:
    """Return reason and message of the instances' readiness."""
    found = (await planet.user.resource(INSTANCES).list(namespace)).items
    stated = [each for one in found for each in one["status"]["conditions"] if each["type"] == "Ready"]
    return [(each["reason"], each["message"]) for each in stated]


def test_a_machine_waits_for_the_image_of_its_namespace_and_boots_from_it() -> None:
    async def story(planet: Planet) -> None:
        await planet.user.resource(NAMESPACES).create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
        )
        await planet.user.resource(IMAGES).create(image(), namespace="other")
        await planet.user.resource(WORKLOADS).create(machine(), namespace="default")
        await planet.wait(20)
        [(reason, message)] = await ready(planet)
        assert (reason, message) == ("ImageUnavailable", "LocalMachineImage os does not exist in the namespace.")
        await planet.user.resource(IMAGES).create(image(), namespace="default")
        await planet.wait(30)
        assert [reason for reason, _ in await ready(planet)] == ["Running"]
        [pod] = (await planet.user.resource(PODS).list("default")).items
        assert pod["spec"]["containers"][0]["image"] == "default:os"
        told = json.loads(pod["metadata"]["annotations"][ANNOTATION_MACHINE_IMAGES])
        assert told["default:os"]["source"] == {"url": "https://example.com/os.raw"}
        [claim] = (await planet.user.resource(VOLUME_CLAIMS).list("default")).items
        assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"

    play(story)


def test_a_disk_that_does_not_hold_the_image_is_told_before_anything_is_made() -> None:
    async def story(planet: Planet) -> None:
        await planet.user.resource(IMAGES).create(image(size="20Gi"), namespace="default")
        await planet.user.resource(WORKLOADS).create(machine("10Gi"), namespace="default")
        await planet.wait(20)
        [(reason, message)] = await ready(planet)
        assert (reason, message) == (
            "ImageUnavailable",
            "LocalMachineImage os has 20Gi, and the disk boot is smaller.",
        )
        assert not (await planet.user.resource(PODS).list("default")).items

    play(story)


def test_a_quota_counts_them() -> None:
    async def story(planet: Planet) -> None:
        quotas = dynamic("v1", "resourcequotas", "ResourceQuota")
        hard = {"count/localmachineimages.compute.datumapis.com": "1"}
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
        await planet.user.resource(quotas).create(body, namespace="default")
        await planet.wait(5)
        await planet.user.resource(IMAGES).create(image(), namespace="default")
        second = image()
        second["metadata"]["name"] = "other"
        with pytest.raises(Forbidden, match="exceeded quota"):
            await planet.user.resource(IMAGES).create(second, namespace="default")

    play(story)
