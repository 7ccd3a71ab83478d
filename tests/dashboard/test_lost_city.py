"""A city without heartbeats: the page reports it in words, wherever it shows the city."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.dashboard.axe import wrong
from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.lostcity import found, heard
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(180)]


@pytest.fixture
def planet(tmp_path_factory: pytest.TempPathFactory) -> Generator[TarmacProcess]:
    running = TarmacProcess(tmp_path_factory.mktemp("planet") / "data", "--runtime", "sim", command="up").start()
    try:
        found(running)
        yield running
    finally:
        running.stop()


def test_a_lost_city_is_said_to_be_lost_in_words_and_comes_back(planet: TarmacProcess, axe: str) -> None:
    heard(planet, "True")
    with dashboard(planet.kubeconfig) as address, browser_page() as page:
        page.goto(address)
        expect(row(page)).to_contain_text("Ready")
        expect(page.locator("svg.map").get_by_text("FRA 0/0", exact=True)).to_be_visible()
        heard(planet, "Unknown")
        expect(page.get_by_role("main").get_by_role("status")).to_contain_text(
            "FRA is lost: nothing is heard from any node there. Its pods may still run."
        )
        expect(page.locator("svg.map").get_by_text("FRA 0/0 lost", exact=True)).to_be_visible()
        expect(page.locator("svg.map a").filter(has_text="FRA").locator(".shape")).to_have_text("✕")
        expect(row(page)).to_contain_text(re.compile(r"✕ Lost.*LocationUnreachable"))
        page.evaluate(axe)
        assert wrong(page) == []
        page.emulate_media(forced_colors="active")  # without any colour of the page
        expect(row(page)).to_contain_text("✕ Lost")
        heard(planet, "False")
        expect(row(page)).to_contain_text("No node is ready")
        expect(page.get_by_text("FRA is lost")).to_have_count(0)
        heard(planet, "True")
        expect(row(page)).to_contain_text("● Ready")


def row(page: Page) -> Locator:
    return page.get_by_role("row", name=re.compile("^FRA "))
