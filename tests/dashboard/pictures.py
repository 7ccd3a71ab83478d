"""`make pictures`: every view in both themes and on a narrow screen, into docs/pictures, to be looked at.

`python -m tests.dashboard.pictures NAME...` makes those of some views alone.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import expect

from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.machinefakes import serve_machine
from tests.dashboard.views import STATES, VIEWS, fill_with_everything, instance_views, reach, revise, show
from tests.support.tarmac_process import TarmacProcess

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
SETTLING = 500  # milliseconds: a view says that it loads only when that takes long, so nothing tells when it has all
LOOKS = {"light": (1280, 720), "dark": (1280, 720), "narrow": (360, 720)}


def main(names: list[str]) -> int:
    """Make them anew, all when none is named."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tarmac-pictures-") as folder:
        planet = TarmacProcess(Path(folder) / "data", "--runtime", "sim", command="up").start()
        try:
            fill_with_everything(planet)
            revise(planet)
            everything = {**VIEWS, **instance_views(planet)}
            wanted = names or [each for each in (*everything, *STATES) if not each.startswith("no-")]
            with dashboard(planet.kubeconfig) as address, browser_page() as page:
                page.goto(address)
                serve_machine(page)
                for look, (width, height) in LOOKS.items():
                    page.set_viewport_size({"width": width, "height": height})
                    page.emulate_media(color_scheme="dark" if look == "dark" else "light", reduced_motion="reduce")
                    for view in filter(everything.__contains__, wanted):
                        show(page, everything[view])
                        page.wait_for_timeout(SETTLING)
                        page.screenshot(path=str(FOLDER / f"{view}-{look}.png"))
                    for state in filter(STATES.__contains__, wanted):
                        reach(page, state)
                        page.screenshot(path=str(FOLDER / f"{state}-{look}.png"))
                        page.keyboard.press("Escape")
                        expect(page.get_by_role("dialog")).to_have_count(0)
        finally:
            planet.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
