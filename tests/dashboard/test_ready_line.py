"""The head of a Workload shows its ready instances of the last minutes as a line, once there are enough samples."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.dashboard.browser import browser_page, dashboard
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(180)]


@pytest.fixture
def page(full_planet: TarmacProcess) -> Generator[Page]:
    with dashboard(full_planet.kubeconfig) as address, browser_page() as made:
        made.goto(address)
        yield made


def add_samples(page: Page, count: int) -> None:
    """Put samples in front of those of the server, one a minute."""

    def answer(route: Route) -> None:
        history = route.fetch().json()
        early = [{"timestamp": f"2026-01-01T00:0{each}:00Z", "ready": 1, "desired": 3} for each in range(count)]
        route.fulfill(body=json.dumps({**history, "samples": [*early, *history["samples"]]}))

    page.route("**/workloads/web/history*", answer)


def test_ready_instances_of_the_last_minutes_are_a_line_beside_the_count(page: Page) -> None:
    add_samples(page, 5)
    page.evaluate("location.hash = '#/workloads/default/web'")
    line = page.get_by_role("img", name="Ready instances over the last minutes: 1/3")
    expect(line).to_be_visible()
    points = line.locator("polyline:not(.desired)").get_attribute("points") or ""
    assert len(points.split()) >= 5


def test_fewer_than_five_samples_are_no_line(page: Page) -> None:
    with page.expect_response("**/workloads/web/history*") as answered:
        page.evaluate("location.hash = '#/workloads/default/web'")
    assert answered.value.status == 200
    samples = answered.value.json()["samples"]
    expect(page.get_by_text("2/2 ready")).to_be_visible()
    assert page.get_by_role("img", name="Ready instances over").count() == (1 if len(samples) >= 5 else 0)
