"""An instance in the page: what it uses while one looks, and what the server tells of it and of its Pod."""

from __future__ import annotations

import json
import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.views import instance_of, kubectl
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.serial, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def instance(full_planet: TarmacProcess) -> str:
    return instance_of(full_planet, "web")


@pytest.fixture
def page(full_planet: TarmacProcess) -> Generator[Page]:
    with dashboard(full_planet.kubeconfig) as address, browser_page() as made:
        made.clock.install()
        made.goto(address)
        expect(made.get_by_role("heading", name="Planet")).to_be_visible()
        yield made


def tell(planet: TarmacProcess, kind: str, name: str, **event: str) -> None:
    """An event about something."""
    about = {"kind": kind, "name": name, "namespace": "default"}
    body = {"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "told-", "namespace": "default"}}
    kubectl(planet, "create", "-f", "-", stdin=json.dumps({**body, "involvedObject": about, **event}))


def test_usage_of_all_its_containers_is_plotted_every_15_seconds_while_shown(page: Page, instance: str) -> None:
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        time = f"2026-11-17T06:00:{15 * (len(asked) - 1):02}Z"
        used = [{"name": each, "usage": {"cpu": f"{100 * len(asked)}m", "memory": "32Mi"}} for each in ("web", "log")]
        route.fulfill(json={"timestamp": time, "window": "15s", "containers": used})

    page.route(f"**/metrics.k8s.io/v1beta1/namespaces/default/pods/{instance}?*", answer)
    page.evaluate(f"location.hash = '#/instances/default/{instance}'")
    usage = page.get_by_role("region", name="Usage")
    expect(usage).to_contain_text("since the page was opened")
    expect(usage.get_by_role("img", name=re.compile("^cpu: 200m now; .*, 1 measurement$"))).to_be_visible()
    page.clock.run_for(15_000)
    expect(usage.get_by_role("img", name=re.compile("^cpu: 400m now; between 200m and 400m"))).to_be_visible()
    expect(usage.get_by_role("img", name=re.compile("^memory: 64Mi now"))).to_be_visible()
    page.get_by_role("link", name="events", exact=True).click()
    expect(page.locator("main .tabs [aria-current]")).to_have_text("events")
    before = len(asked)
    page.clock.run_for(60_000)
    assert len(asked) == before


def test_what_a_simulated_node_measures_is_shown_and_what_nobody_measures_is_said(page: Page, instance: str) -> None:
    page.evaluate(f"location.hash = '#/instances/default/{instance}'")
    expect(page.get_by_role("region", name="Usage").get_by_role("img", name=re.compile("^cpu: "))).to_be_visible()
    page.evaluate("location.hash = '#/instances/default/nothing'")
    expect(page.get_by_role("region", name="Usage")).to_contain_text("Nobody measures this yet.")


def test_its_events_and_those_of_its_pod_are_there_the_newest_first(
    page: Page, instance: str, full_planet: TarmacProcess
) -> None:
    tell(full_planet, "Instance", instance, reason="Older", message="m", lastTimestamp="2030-01-01T00:00:00Z")
    tell(
        full_planet, "Pod", instance, reason="Newer", message="m", lastTimestamp="2030-01-01T00:00:01Z", type="Warning"
    )
    tell(full_planet, "Node", instance, reason="Foreign", message="m", lastTimestamp="2030-01-01T00:00:02Z")
    page.evaluate(f"location.hash = '#/instances/default/{instance}/events'")
    rows = page.get_by_role("region", name="Events, scrolls").locator("tbody tr")
    expect(rows.nth(0)).to_contain_text(re.compile(f"Pod {instance}.*✕ Newer"))
    expect(rows.nth(1)).to_contain_text(re.compile(f"Instance {instance}.*Older"))
    expect(page.get_by_text("Foreign")).to_have_count(0)
    expect(page.locator("main .command code")).to_have_text(f"kubectl events --for instance/{instance} -n default")
    tell(full_planet, "Instance", instance, reason="Newest", message="m", lastTimestamp="2030-01-01T00:00:03Z")
    page.clock.run_for(5000)
    expect(rows.nth(0)).to_contain_text("Newest")
