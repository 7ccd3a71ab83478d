"""Every Workload that we ship lands, whole, on the cities that `tarmac up` has by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tarmac.client.targets.target import dynamic
from tests.controllers.planet import Planet, play

EXAMPLES = Path(__file__).parents[2] / "examples"
WORKLOADS = sorted(path.stem for path in EXAMPLES.glob("*.yaml") if "kind: Workload" in path.read_text())


@pytest.mark.parametrize("name", WORKLOADS)
def test_an_example_lands(name: str) -> None:
    async def story(planet: Planet) -> None:
        *others, workload = yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
        for body in (*others, workload):
            target = dynamic(body["apiVersion"], f"{body['kind'].lower()}s", body["kind"])
            await planet.user.resource(target).create(body, namespace="default")

        async def complete() -> bool:
            found = (await planet.workload(workload["metadata"]["name"])).get("status") or {}
            return found.get("summary", {}).get("status") == "Available"

        await planet.until(complete)

    play(story)
