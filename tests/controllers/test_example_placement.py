"""Every Workload in our examples fits, whole, on the cities that `tarmac up --runtime sim` has by default."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tarmac.api.catalog import build_catalog
from tarmac.api.schema import JsonObject
from tarmac.client.targets.target import dynamic
from tests.controllers.planet import Planet, play

EXAMPLES = Path(__file__).parents[2] / "examples"
WORKLOADS = sorted(path.stem for path in EXAMPLES.glob("*.yaml") if "kind: Workload" in path.read_text())
CATALOG = build_catalog()


def place(body: JsonObject) -> str:
    """Return the namespace that an object is for."""
    return str(body["metadata"].get("namespace", "default"))


@pytest.mark.parametrize("name", WORKLOADS)
def test_an_example_lands(name: str) -> None:
    async def story(planet: Planet) -> None:
        bodies = list(yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))
        for body in bodies:
            group, _, version = body["apiVersion"].rpartition("/")
            served = CATALOG.find_kind(group, version, body["kind"])
            assert served is not None
            target = dynamic(body["apiVersion"], served.plural, body["kind"])
            await planet.user.resource(target).create(body, namespace=place(body) if served.namespaced else "")
        workloads = [(body["metadata"]["name"], place(body)) for body in bodies if body["kind"] == "Workload"]

        async def complete() -> bool:
            found = [(await planet.workload(*each)).get("status") or {} for each in workloads]
            return all(each.get("summary", {}).get("status") == "Available" for each in found)

        await planet.until(complete)

    play(story)
