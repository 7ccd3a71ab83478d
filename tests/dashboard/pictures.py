"""`make pictures`: the eight views of the showcase planet that the docs show, in both themes and on a narrow screen.

They are written to docs/pictures, for review; test_pictures.py compares the page with them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic, sleep

from playwright.sync_api import Page, expect

from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.views import instance_of, kubectl
from tests.support.tarmac_process import TarmacProcess

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
SHOWCASE = ROOT / "examples" / "scenarios" / "showcase.yaml"
LOOKS = {"light": (1280, 800), "dark": (1280, 800), "narrow": (390, 844)}
PLAYED = 240.0  # seconds within which all steps of the showcase are done
AGE = timedelta(minutes=15, seconds=30)
"""The age of the planet in all pictures, so that ages are equal."""
ANSWERED = 4000  # milliseconds until explanations and ledgers of all rows have arrived
SETTLING = 700
PROGRESS = "main progress"
CRASHED = {"planet": "176 of 200", "workloads": "0/12", "workload": "0/12"}
"""Text of views while no instance of the crashing Workload is ready: one is for a second after each start."""


@contextmanager
def showcase(folder: Path) -> Generator[TarmacProcess]:
    """The showcase planet, with all its steps played."""
    planet = TarmacProcess(folder / "data", str(SHOWCASE), "--serve", command="sim").start()
    try:
        until = monotonic() + PLAYED
        while "all steps are done" not in planet.log.read_text():
            assert monotonic() < until, planet.log.read_text()
            sleep(0.5)
        yield planet
    finally:
        planet.stop()


def views(planet: TarmacProcess) -> dict[str, tuple[str, str]]:
    """Return the address of each view, and an element that appears once it is loaded."""
    gpu = instance_of(planet, "inference", "ml")
    return {
        "planet": ("#/planet", ".attention p"),
        "workloads": ("#/workloads", "tbody tr"),
        "workload": ("#/workloads/shop/payments", ".failing pre"),
        "rollout": ("#/workloads/shop/frontend/rollout", PROGRESS),
        "instance": (f"#/instances/ml/{gpu}", ".cards"),
        "nodes": ("#/nodes", ".load"),
        "network": ("#/networks/shop/default", ".answer.no"),
        "change": ("#/change/shop/frontend", ".fields"),
    }


def taken(planet: TarmacProcess) -> Iterator[tuple[str, bytes]]:
    """Yield each picture with its name."""
    born = kubectl(planet, "get", "namespace", "shop", "-o", "jsonpath={.metadata.creationTimestamp}")
    with dashboard(planet.kubeconfig) as address, browser_page(locale="en-GB", timezone_id="UTC") as page:
        page.clock.set_fixed_time(datetime.fromisoformat(born) + AGE)
        page.goto(address)
        for view, (fragment, ready) in views(planet).items():
            page.evaluate(f"location.hash = {fragment!r}")
            expect(page.locator(ready).first).to_be_visible(timeout=60_000)
            if view == "change":
                _preview(page)
            page.wait_for_timeout(ANSWERED)  # no event marks the last response for a row
            for look, (width, height) in LOOKS.items():
                page.set_viewport_size({"width": width, "height": height})
                page.emulate_media(color_scheme="dark" if look == "dark" else "light", reduced_motion="reduce")
                page.evaluate("scrollTo(0, 0)")
                page.wait_for_timeout(SETTLING)
                expect(page.get_by_text(CRASHED.get(view, "")).first).to_be_attached(timeout=60_000)
                yield f"{view}-{look}", page.screenshot(timeout=60_000)


def _preview(page: Page) -> None:
    page.get_by_role("form", name="Fields").get_by_label("Image").fill("registry.example.com/shop/frontend:4.3")
    page.get_by_role("form", name="Fields").get_by_label("Image").press("Tab")
    page.get_by_role("button", name="Preview", exact=True).click()
    page.get_by_role("button", name="Take over, and preview").click()  # the scenario owns the image
    expect(page.get_by_role("region", name="Preview", exact=True)).to_be_visible()


def main() -> int:
    """Make all pictures again, and remove old ones."""
    with tempfile.TemporaryDirectory(prefix="tarmac-pictures-") as folder, showcase(Path(folder)) as planet:
        made = dict(taken(planet))
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.png"):
        old.unlink()
    for name, picture in made.items():
        (FOLDER / f"{name}.png").write_bytes(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
