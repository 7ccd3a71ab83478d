"""Who may not see everything: a page that is complete for them, says what they may not, and offers nothing in vain."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.browser import browser_page
from tests.dashboard.views import instance_of, kubectl
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.serial, pytest.mark.timeout(180)]


def viewer(planet: TarmacProcess, name: str) -> str:
    """The token of one who may look at `default` and nothing else."""
    kubectl(planet, "create", "serviceaccount", name)
    kubectl(planet, "create", "rolebinding", name, "--clusterrole=view", f"--serviceaccount=default:{name}")
    return kubectl(planet, "create", "token", name).strip()


def enter(page: Page, planet: TarmacProcess, token: str) -> None:
    page.goto(f"{planet.url}/dashboard/")
    page.get_by_label("A token").fill(token)
    page.get_by_role("button", name="Enter").click()


@pytest.fixture
def page() -> Generator[Page]:
    with browser_page() as made:
        yield made


def test_who_may_view_one_namespace_has_a_complete_page(page: Page, full_planet: TarmacProcess) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    enter(page, full_planet, viewer(full_planet, "viewer"))
    for city in ("DFW", "SEA"):  # on the map although Locations are not theirs to see
        expect(page.locator("svg.map").get_by_text(re.compile(f"^{city} "))).to_be_visible()
    expect(page.get_by_label("Namespace")).to_have_value("default")
    for view, shown in (("Workloads", "web"), ("Networks", "default"), ("External", "my-externalservice")):
        page.get_by_role("link", name=view).click()
        expect(page.get_by_role("link", name=shown, exact=True)).to_be_visible()
        assert "ns=default" in page.url
    expect(page.get_by_role("alert").first).to_contain_text("You may not see this")  # addresses are of the cluster
    expect(page.locator(".command")).to_contain_text("-n default")
    page.get_by_role("link", name="Nodes").click()
    expect(page.get_by_role("alert")).to_contain_text("cannot list resource")
    vm = instance_of(full_planet, "vm")
    page.evaluate(f"location.hash = '#/instances/default/{vm}/screen'")
    expect(page.get_by_role("button", name="Reset")).to_be_disabled()
    expect(page.get_by_text("You may not create instances/power in default.")).to_be_visible()
    page.evaluate(f"location.hash = '#/instances/default/{vm}/recordings'")
    expect(page.get_by_role("alert")).to_contain_text("You may not see this")
    page.evaluate("location.hash = '#/external/default/my-externalservice'")
    expect(page.get_by_text("Failovers are not known")).to_be_visible()
    before = len([each for each in asked if "/sourceips" in each])
    with page.expect_request(lambda request: "/why?" in request.url, timeout=15_000):
        pass  # what they may see is asked for again, the rest is not
    assert len([each for each in asked if "/sourceips" in each]) == before


def test_another_namespace_is_shown_as_what_it_is_and_stays_in_links(page: Page, full_planet: TarmacProcess) -> None:
    enter(page, full_planet, viewer(full_planet, "curious"))
    expect(page.get_by_label("Namespace")).to_have_value("default")
    page.get_by_label("Namespace").fill("kube-system")
    page.get_by_label("Namespace").press("Enter")
    page.get_by_role("link", name="Workloads").click()
    expect(page.get_by_role("alert")).to_contain_text('in the namespace "kube-system"')
    assert "ns=kube-system" in page.url


def test_a_token_that_is_no_longer_accepted_is_asked_for_again_and_the_view_stays(
    page: Page, full_planet: TarmacProcess
) -> None:
    token, other = viewer(full_planet, "leaver"), viewer(full_planet, "stayer")
    enter(page, full_planet, token)
    page.get_by_role("link", name="Workloads").click()
    page.get_by_role("link", name="web", exact=True).click()
    page.get_by_role("link", name="why", exact=True).click()
    expect(page.get_by_role("region", name="Why")).to_contain_text("ready")
    here = page.url
    asked: list[str] = []
    kubectl(full_planet, "delete", "serviceaccount", "leaver")
    expect(page.get_by_role("alert")).to_contain_text("does not accept the token")
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    page.wait_for_timeout(3000)  # longer than the first pauses after which a lost watch would come again
    assert asked == []
    assert page.url == here
    page.get_by_label("A token").fill(other)
    page.get_by_role("button", name="Enter").click()
    expect(page.get_by_role("region", name="Why")).to_contain_text("ready")
    assert page.url == here
