"""Networks and external services in the page: reachability, the deciding rule, and changes that would alter it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator

import pytest
from playwright.sync_api import Page, Request, expect

from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.views import instance_of, kubectl, removed_afterwards
from tests.support.kubectl import kubectl_path
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(180)]
POLICY = {
    "apiVersion": "networking.datumapis.com/v1alpha",
    "kind": "NetworkPolicy",
    "metadata": {"name": "web-only-https"},
    "spec": {
        "selector": {"matchLabels": {"compute.datumapis.com/workload-name": "web"}},
        "ingress": [{"ports": [{"port": 443}]}],
    },
}


@pytest.fixture(scope="module")
def page(full_planet: TarmacProcess) -> Generator[Page]:
    policy = "networkpolicies.networking.datumapis.com/web-only-https"
    with (
        removed_afterwards(full_planet, policy),
        dashboard(full_planet.kubeconfig) as address,
        browser_page() as made,
    ):
        made.goto(address)
        yield made


def applied(planet: TarmacProcess, *objects: object) -> None:
    command = [kubectl_path(), "--kubeconfig", str(planet.kubeconfig), "apply", "-f", "-"]
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    subprocess.run(command, input=manifest, text=True, capture_output=True, check=True)


def test_a_small_matrix_is_answered_at_once_and_a_cell_names_the_rule(page: Page, full_planet: TarmacProcess) -> None:
    workloads = kubectl(full_planet, "get", "workloads", "-o", "name").split()
    asked: list[str] = []
    page.on("request", lambda request: asked.extend([request.url] if "reach=" in request.url else []))
    page.get_by_role("link", name="Networks").click()
    page.get_by_role("link", name="default", exact=True).click()
    expect(page.get_by_role("button", name="orders to web: Yes")).to_be_visible()
    cells = page.locator("table.matrix").get_by_role("button")
    expect(cells).to_have_count(len(workloads) ** 2)
    expect(cells.filter(has_text="?")).to_have_count(0)
    before = len(asked)
    assert before <= len(workloads) ** 2
    applied(full_planet, POLICY)
    page.get_by_role("button", name="orders to web: Yes").click()
    expect(page.get_by_role("button", name="orders to web: No")).to_be_visible()
    answer = page.get_by_role("region", name="Answer")
    expect(answer).to_contain_text("NetworkPolicy default/web-only-https")
    expect(answer).to_contain_text("To change it:")
    assert len(asked) == before + 1
    page.get_by_role("link", name="This question as a link").click()
    expect(page.get_by_label("Port")).to_have_value("8080")
    expect(answer).to_contain_text("does not reach")


def test_a_question_is_its_link_and_has_its_command(page: Page, full_planet: TarmacProcess) -> None:
    applied(full_planet, POLICY)
    sender, target = instance_of(full_planet, "orders"), instance_of(full_planet, "web")
    page.evaluate(f"location.hash = '#/networks/default/default/ask?from={sender}&to={target}&port=443'")
    answer = page.get_by_role("region", name="Answer")
    expect(answer).to_contain_text("NetworkPolicy default/web-only-https ingress[0]")
    page.get_by_label("Port").fill("http")
    page.get_by_label("Protocol").select_option("TCP")
    page.get_by_label("and back").check()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(answer).to_contain_text("And back")
    assert "port=http" in page.url
    command = f"tarmac why instance/{sender} -n default --reach {target}:http --both"
    expect(page.locator(".command")).to_contain_text(command)
    page.get_by_label("To", exact=True).fill("example.com")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("looks like a host name")
    page.get_by_label("To", exact=True).fill("<img src=x onerror=alert(1)>")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("<img src=x")
    page.get_by_label("To", exact=True).fill("")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_text("Choose a target")).to_be_visible()


def test_a_service_leads_over_an_address_to_a_gateway_and_is_asked_about_while_shown(page: Page) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        if request.url.partition("?")[0].endswith("/my-externalservice/connections"):
            asked.append(request.url)

    page.on("request", note)
    page.get_by_role("link", name="Egress").click()
    page.get_by_role("link", name="my-externalservice").click()
    ways = page.get_by_role("region", name="Ways, scrolls")
    expect(ways.get_by_role("row").filter(has_text="192.168.122.200")).to_contain_text("no owner")
    expect(page.get_by_role("region", name="Why")).to_contain_text("Label a node")
    expect(page.get_by_text("Nodes that did not answer")).to_be_visible()
    assert len(asked) == 1
    with page.expect_request(lambda request: "/connections?" in request.url, timeout=15_000):
        pass
    page.get_by_role("link", name="connections", exact=True).click()
    expect(page.get_by_text("No connection is open now")).to_be_visible()
