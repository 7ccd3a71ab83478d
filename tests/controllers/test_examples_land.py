"""Every Workload that we ship lands, whole, on the cities that `tarmac up` has by itself.

Images of virtual machines have no source there; somebody says where they are first.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tarmac.api.compute.machineimage import built_in_images
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.typed import MACHINE_IMAGES
from tests.controllers.planet import Planet, play

EXAMPLES = Path(__file__).parents[2] / "examples"
WORKLOADS = sorted(path.stem for path in EXAMPLES.glob("*.yaml") if "kind: Workload" in path.read_text())
IMAGES = [image["metadata"]["name"] for image in built_in_images()]
SOURCE = {"source": {"file": "os.img"}, "checksum": f"sha256:{0:064}"}


@pytest.mark.parametrize("name", WORKLOADS)
def test_an_example_lands(name: str) -> None:
    async def story(planet: Planet) -> None:
        for image in IMAGES:
            await planet.user.resource(MACHINE_IMAGES.unread).patch(image, {"spec": SOURCE})
        *others, workload = yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
        for body in (*others, workload):
            target = dynamic(body["apiVersion"], f"{body['kind'].lower()}s", body["kind"])
            await planet.user.resource(target).create(body, namespace="default")

        async def complete() -> bool:
            found = (await planet.workload(workload["metadata"]["name"])).get("status") or {}
            return found.get("summary", {}).get("status") == "Available"

        await planet.until(complete)

    play(story)
