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


def test_instances_that_run_elsewhere_for_a_lost_city_are_an_arc_and_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, axe: str
) -> None:
    folder = tmp_path_factory.mktemp("failover")
    (folder / "failover.yaml").write_text(FAILOVER)
    planet = TarmacProcess(folder / "data", str(folder / "failover.yaml"), "--serve", command="sim").start()
    try:
        with dashboard(planet.kubeconfig) as address, browser_page() as page:
            page.goto(address)
            banner = page.get_by_role("main").get_by_role("status")
            expect(banner).to_contain_text("2 instances of SEA run in LHR instead.", timeout=90_000)
            expect(page.locator("svg.map path.arc")).to_have_count(1)
            expect(page.locator("svg.map path.arc title")).to_have_text("2 instances of SEA run in LHR instead.")
            expect(page.locator("svg.map path.arc.busy")).to_have_count(0)
            expect(page.get_by_text(re.compile("^2 of 2 instances ready"))).to_be_visible()
            expect(page.get_by_text(re.compile("^0 of [0-9]+ CPUs used"))).to_be_visible()
            page.get_by_role("link", name="4 cities 2/2").click()
            expect(page.locator("svg.map").get_by_text("LHR 2/2", exact=True)).to_be_visible()
            expect(page.locator("svg.map").get_by_text(re.compile("^BRU 0/0"))).to_be_visible()
            page.get_by_role("link", name="Whole planet").click()
            expect(page.get_by_role("link", name="4 cities 2/2")).to_be_visible()
            page.evaluate(axe)
            assert wrong(page) == []
    finally:
        planet.stop()


FAILOVER = """
name: A city is lost, another one stands in
cities: {SEA: 1, LHR: 2, AMS: 1, BRU: 1, CDG: 1}
nodeConfig: {capacity: {cpu: 12, memory: 48Gi}}
steps:
  - apply:
      apiVersion: compute.datumapis.com/v1alpha
      kind: Workload
      metadata: {name: web, namespace: default}
      spec:
        template: {spec: {runtime: {sandbox: {containers: [{name: main, image: "registry.example.com/web:1"}]}}}}
        placements:
          - name: all
            cityCodes: [SEA]
            scaleSettings: {minReplicas: 2}
            onCityLoss: {policy: Move, cities: [LHR], after: 1s}
  - until: {object: workload/web, condition: Ready, within: 1m}
  - cut: SEA
"""


def row(page: Page) -> Locator:
    return page.get_by_role("row", name=re.compile("^FRA "))
