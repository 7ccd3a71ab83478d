"""The catalogue contains the sources of built-in images once their files exist; an administrator's value stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tarmac.api.compute.names import API_VERSION
from tarmac.apps.cities.realcities import set_image_sources
from tarmac.client.targets.target import dynamic
from tests.controllers.planet import Planet, play

IMAGES = dynamic(API_VERSION, "machineimages", "MachineImage", namespaced=False)


def made(folder: Path, sum_: str) -> dict[str, Any]:
    checksum = f"sha256:{sum_ * 64}"
    kernel = {"file": "vmlinuz", "checksum": checksum}
    spec = {"source": {"file": "tiny.raw"}, "checksum": checksum, "boot": {"kernel": kernel, "commandLine": "quiet"}}
    (folder / "tiny.json").write_text(json.dumps(spec))
    return spec


def test_the_sources_of_built_in_images_follow_their_files(tmp_path: Path) -> None:
    async def story(planet: Planet) -> None:
        images = planet.user.resource(IMAGES)
        await planet.wait(1)

        async def said() -> dict[str, Any]:
            return (await images.get("tarmac-tiny"))["spec"]

        await set_image_sources(planet.user, tmp_path)
        assert "source" not in await said()
        for sum_ in "ab":
            wanted = made(tmp_path, sum_)
            await set_image_sources(planet.user, tmp_path)
            found = await said()
            assert {field: found[field] for field in wanted} == wanted
            assert found["size"] == "1Gi"
        before = await images.get("tarmac-tiny")
        await set_image_sources(planet.user, tmp_path)
        assert await images.get("tarmac-tiny") == before, "no write without a difference"
        own = {"url": "https://images.example.com/tiny.raw"}
        await images.patch("tarmac-tiny", {"spec": {"source": own | {"file": None}, "boot": None}}, type="merge")
        made(tmp_path, "c")
        (tmp_path / "other.json").write_text("{")
        (tmp_path / "unknown.json").write_text(json.dumps(made(tmp_path, "c")))
        await set_image_sources(planet.user, tmp_path)
        assert (await said())["source"] == own

    play(story)
