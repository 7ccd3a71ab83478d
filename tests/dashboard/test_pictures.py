"""The showcase planet has its planned state, and the page looks as in the approved pictures of docs/pictures."""

from __future__ import annotations

import base64
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.dashboard.browser import browser_page
from tests.dashboard.pictures import FOLDER, showcase, taken
from tests.dashboard.views import kubectl
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(600)]
LARGEST_FOLDER = 3_000_000  # bytes
SCALE = 4
"""Pictures are compared at a quarter of their size: single letters, such as a count of restarts, average out."""
DISTINCT = 32
"""Levels of 255 by which a colour has to differ to count."""
TOLERANCE = 0.04
"""The part of a picture that may differ."""
_DIFFERENCE = """async ([first, second, scale, distinct]) => {
  const pixels = async (data) => {
    const image = await createImageBitmap(await (await fetch("data:image/png;base64," + data)).blob());
    const [width, height] = [Math.round(image.width / scale), Math.round(image.height / scale)];
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, width, height);
    return context.getImageData(0, 0, width, height);
  };
  const [one, other] = await Promise.all([pixels(first), pixels(second)]);
  if (one.width !== other.width || one.height !== other.height) return 1;
  let count = 0;
  for (let at = 0; at < one.data.length; at += 4)
    if ([0, 1, 2].some((each) => Math.abs(one.data[at + each] - other.data[at + each]) > distinct)) count += 1;
  return count / (one.width * one.height);
}"""


@pytest.fixture(scope="module")
def planet(tmp_path_factory: pytest.TempPathFactory) -> Generator[TarmacProcess]:
    with showcase(tmp_path_factory.mktemp("showcase")) as running:
        yield running


def found(planet: TarmacProcess, *words: str) -> dict[str, Any]:
    """Objects by namespace and name."""
    items = json.loads(kubectl(planet, "get", *words, "-o", "json"))["items"]
    return {
        "/".join(filter(None, (each["metadata"].get("namespace"), each["metadata"]["name"]))): each for each in items
    }


def test_the_showcase_has_every_problem_that_it_is_to_show(planet: TarmacProcess) -> None:
    status = {name: each["status"] for name, each in found(planet, "workloads", "-A").items()}
    assert len(found(planet, "locations", "-A")) == 12
    assert sum(each["desiredReplicas"] for each in status.values()) == 200
    reasons = {name: each["summary"].get("reason") for name, each in status.items()}
    assert reasons["media/thumbnails"] == "ImageUnavailable"
    assert reasons["data/warehouse"] == "InsufficientCapacity"
    assert {reasons[each] for each in ("media/live", "shop/checkout")} == {"CityLost"}
    assert reasons["shop/cart"] == "NoCandidateLocations", "its instances run elsewhere"
    moved = found(planet, "workloaddeployments", "-n", "shop", "-l", "compute.datumapis.com/moved-from=NRT")
    assert [(each["spec"]["cityCode"], each["status"]["readyReplicas"]) for each in moved.values()] == [("SYD", 2)]
    assert status["shop/frontend"]["rollout"]["wave"] == 2
    crashing = found(planet, "pods", "-n", "shop", "-l", "compute.datumapis.com/workload-name=payments")
    assert all(each["status"]["containerStatuses"][0]["restartCount"] for each in crashing.values())
    nodes = found(planet, "nodes")
    gpus = [name for name, each in nodes.items() if any("nvidia" in one for one in each["status"]["capacity"])]
    assert gpus == ["ord-0"]
    machines = found(planet, "instances", "-l", "compute.datumapis.com/workload-name=vm")
    assert len(machines) == 2
    assert "default/my-externalservice" in found(planet, "externalservices", "-A")


def test_the_page_looks_as_in_the_approved_pictures(planet: TarmacProcess, tmp_path: Path) -> None:
    different: dict[str, float] = {}
    with browser_page() as page:
        for name, picture in taken(planet):
            share = difference(page, (FOLDER / f"{name}.png").read_bytes(), picture)
            if share > TOLERANCE:
                (tmp_path / f"{name}.png").write_bytes(picture)
                different[name] = round(share, 3)
    assert different == {}, f"look at {tmp_path}; if it is as it should be, run make pictures"


def difference(page: Page, first: bytes, second: bytes) -> float:
    """The part of two pictures that differs; 1 if they are not of one size."""
    encoded = [base64.b64encode(each).decode() for each in (first, second)]
    share: float = page.evaluate(_DIFFERENCE, [*encoded, SCALE, DISTINCT])
    return share


def test_a_picture_that_looks_otherwise_is_noticed() -> None:
    with browser_page() as page:
        pictures = {
            name: (FOLDER / f"{name}.png").read_bytes() for name in ("planet-light", "planet-dark", "nodes-light")
        }
        assert difference(page, pictures["planet-light"], pictures["planet-light"]) == 0
        assert difference(page, pictures["planet-light"], pictures["planet-dark"]) > TOLERANCE
        assert difference(page, pictures["planet-light"], pictures["nodes-light"]) > TOLERANCE


def test_the_pictures_are_few_and_small() -> None:
    sizes = {each.name: each.stat().st_size for each in FOLDER.iterdir()}
    assert len([name for name in sizes if name.endswith(".png")]) == 24, "besides drawings of the docs"
    assert sum(sizes.values()) <= LARGEST_FOLDER
