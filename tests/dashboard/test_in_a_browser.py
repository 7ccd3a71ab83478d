"""The page in a real browser, on a simulated planet: a newcomer's first minutes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Generator

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.editing import paste
from tests.dashboard.views import EXAMPLE, fill, kubectl, tell
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(180)]
HOSTILE = '<img src=x onerror="document.title=1">\u202egnp.exe\u001b]0;x\u0007'


@pytest.fixture(scope="module")
def planet(tmp_path_factory: pytest.TempPathFactory) -> Generator[TarmacProcess]:
    running = TarmacProcess(tmp_path_factory.mktemp("planet") / "data", "--runtime", "sim", command="up").start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def page(planet: TarmacProcess) -> Generator[Page]:
    with dashboard(planet.kubeconfig) as address, browser_page() as made:
        made.goto(address)
        yield made


def test_three_cities_are_on_the_map_and_the_code_is_gone_from_the_address(page: Page) -> None:
    for city in ("DFW", "SEA", "LHR"):
        expect(page.locator("svg.map").get_by_text(re.compile(f"^{city} "))).to_be_visible()
    assert "code=" not in page.url
    assert page.evaluate("document.cookie") == ""


def test_a_mistake_is_named_then_previewed_by_city_then_applied_and_the_map_fills(
    page: Page, planet: TarmacProcess
) -> None:
    page.get_by_role("link", name="Change").click()
    paste(page, EXAMPLE.read_text().replace("sandbox:", "sandbx:"))
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text(
        f"Line {EXAMPLE.read_text().splitlines().index('        sandbox:') + 1}"
    )
    expect(page.get_by_role("alert")).to_contain_text("sandbx")
    paste(page, EXAMPLE.read_text())
    page.get_by_role("button", name="Preview").click()
    for city in ("DFW", "SEA"):
        expect(page.locator("svg.map").get_by_text(f"{city} +1")).to_be_visible()
        expect(page.get_by_role("row", name=re.compile(f"^{city} Comes or stays 1 0 0 0"))).to_be_visible()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("default/web is applied")).to_be_visible()
    page.get_by_role("link", name="Planet", exact=True).click()
    for city in ("DFW", "SEA"):
        expect(page.locator("svg.map").get_by_text(f"{city} 1/1")).to_be_visible()
    page.get_by_role("link", name="Workloads").click()
    page.get_by_role("link", name="web", exact=True).click()
    page.get_by_role("link", name="instances", exact=True).click()
    expect(page.get_by_role("region", name="Instances, scrolls").get_by_role("row")).to_have_count(3)
    seen = set(page.locator("tbody th a").all_inner_texts())
    assert seen == set(
        kubectl(planet, "get", "instances", "-o", "name").replace("instance.compute.datumapis.com/", "").split()
    )
    page.get_by_role("link", name="why", exact=True).click()
    expect(page.get_by_role("region", name="Why")).to_contain_text("ready")


def test_a_list_follows_what_others_do(page: Page, planet: TarmacProcess) -> None:
    page.evaluate("location.hash = '#/any/core/v1/configmaps'")
    expect(page.get_by_role("heading", name="configmaps")).to_be_visible()
    expect(page.locator("tbody tr").first).to_be_visible()
    kubectl(planet, "create", "configmap", "appears")
    expect(page.get_by_role("link", name="appears")).to_be_visible()
    kubectl(planet, "delete", "configmap", "appears")
    expect(page.get_by_role("link", name="appears")).to_have_count(0)


def test_text_of_others_is_text(page: Page, planet: TarmacProcess) -> None:
    kubectl(planet, "create", "configmap", "hostile", f"--from-literal=a={HOSTILE}")
    kubectl(planet, "annotate", "configmap", "hostile", f"note={HOSTILE}")
    page.evaluate("location.hash = '#/any/core/v1/configmaps/default/hostile'")
    expect(page.locator("pre")).to_contain_text("onerror")
    assert page.title() == "Tarmac"
    assert "\u202e" not in page.locator("pre").inner_text()
    assert page.locator("pre img").count() == 0
    page.evaluate("location.hash = '#/<img src=x onerror=alert(1)>'")
    expect(page.get_by_role("alert")).to_contain_text("There is no view")


def test_a_page_of_an_object_links_its_owners(page: Page, planet: TarmacProcess) -> None:
    deployment = kubectl(
        planet, "create", "deployment", "owns", "--image=example.com/a:1", "-o", "jsonpath={.metadata.uid}"
    )
    owners = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "owns", "uid": deployment.strip()},
        {"apiVersion": "moon.example.com/v1", "kind": "Crater", "name": HOSTILE, "uid": "none"},
    ]
    kubectl(planet, "create", "configmap", "owned")
    patch = json.dumps({"metadata": {"ownerReferences": owners}})
    kubectl(planet, "patch", "configmap", "owned", "--type=merge", "-p", patch)
    page.evaluate("location.hash = '#/any/core/v1/configmaps/default/owned'")
    expect(page.get_by_text("Owned by")).to_contain_text("Crater")
    expect(page.get_by_role("link", name="Crater")).to_have_count(0)
    page.get_by_role("link", name="Deployment owns").click()
    expect(page.locator("pre")).to_contain_text("kind: Deployment")
    expect(page.get_by_text("Owned by")).to_have_count(0)
    assert page.url.endswith("#/any/apps/v1/deployments/default/owns")
    kubectl(planet, "delete", "configmap/owned", "deployment/owns")


def test_events_of_any_object_are_its_own_and_none_of_what_bore_its_name_before(
    page: Page, planet: TarmacProcess
) -> None:
    kubectl(planet, "create", "configmap", "told")
    uid = kubectl(planet, "get", "configmap", "told", "-o", "jsonpath={.metadata.uid}")
    page.evaluate("location.hash = '#/any/core/v1/configmaps/default/told'")
    expect(page.locator("pre")).to_contain_text("told")
    page.keyboard.press("]")
    expect(page.get_by_text("Nothing has happened in the last hour")).to_be_visible()
    tell(planet, "ConfigMap", "told", uid, reason="Own", message=HOSTILE)
    tell(planet, "ConfigMap", "told", "another", reason="Former", message="m")
    rows = page.get_by_role("region", name="Events, scrolls").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("ConfigMap told")
    expect(rows).to_contain_text("onerror")
    assert page.title() == "Tarmac"
    expect(page.locator("main .command code")).to_have_text("kubectl events --for configmaps/told -n default")
    page.keyboard.press("[")
    expect(page.locator("pre")).to_contain_text("told")
    page.evaluate("location.hash = '#/any/core/v1/configmaps/default/nothing/events'")
    expect(page.get_by_role("alert")).to_contain_text("not found")


def test_events_of_nodes_and_of_kinds_with_a_group_are_there_and_their_commands_work(
    page: Page, planet: TarmacProcess
) -> None:
    tell(planet, "Node", "dfw-0", "dfw-0", reason="Heard", message="m")  # kubelets write the name in place of the uid
    tell(planet, "Location", "dfw-0", "dfw-0", reason="Foreign", message="m")
    group = ("networking.datumapis.com", "v1alpha", "networks", "default", "default")
    kubectl(planet, "wait", "--for=create", "networks", "default", "--timeout=60s")
    uid = kubectl(planet, "get", "networks", "default", "-o", "jsonpath={.metadata.uid}")
    tell(planet, "Network", "default", uid, "/".join(group[:2]), reason="Drawn", message="m")
    for reason, parts in (("Heard", ("core", "v1", "nodes", "-", "dfw-0")), ("Drawn", group)):
        page.evaluate(f"location.hash = '#/any/{'/'.join(parts)}/events'")
        expect(page.get_by_role("region", name="Events, scrolls")).to_contain_text(reason)
        expect(page.get_by_text("Foreign")).to_have_count(0)
        assert reason in kubectl(planet, *shlex.split(page.locator("main .command code").inner_text())[1:])


def test_logs_of_simulated_nodes_have_a_line_a_second(page: Page, planet: TarmacProcess) -> None:
    fill(planet)
    name = kubectl(planet, "get", "instances", "-o", "jsonpath={.items[0].metadata.name}")
    page.evaluate(f"location.hash = '#/instances/default/{name}/logs'")
    expect(page.get_by_role("main")).to_contain_text(re.compile(r"\d s: \w+ in [A-Z]{3} is running"))


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("workloads/default/nope", "workload default/nope"),
        ("workloads/default/nope/rollout", "workload default/nope"),
        ("instances/default/nope", "instance default/nope"),
        ("nodes/nope", "node nope"),
        ("networks/default/nope", "network default/nope"),
        ("external/default/nope", "external service default/nope"),
    ],
)
def test_an_object_that_does_not_exist_is_named_missing_and_offers_no_action(
    page: Page, address: str, what: str
) -> None:
    page.evaluate(f"location.hash = '#/{address}'")
    expect(page.get_by_role("alert").first).to_contain_text(f"There is no {what}.")
    expect(page.get_by_role("button", name="Delete…")).to_have_count(0)
    expect(page.locator("main").get_by_role("link", name=re.compile("^All "))).to_be_visible()


def test_an_object_that_is_deleted_while_it_is_shown_stays_with_a_note(page: Page, planet: TarmacProcess) -> None:
    kubectl(planet, "apply", "-f", "-", stdin=EXAMPLE.read_text().replace("name: web\nspec", "name: leaves\nspec"))
    page.evaluate("location.hash = '#/workloads/default/leaves/yaml'")
    expect(page.locator("pre")).to_contain_text("leaves")
    kubectl(planet, "delete", "workload", "leaves")
    expect(page.get_by_text("This workload default/leaves was deleted.")).to_be_visible()
    expect(page.locator("pre")).to_contain_text("leaves")


def test_keys_lead_to_views(page: Page) -> None:
    expect(page.get_by_role("heading", name="Planet")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="Nodes")).to_be_visible()
    expect(page.get_by_label("Filter")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("dfw")
    expect(page.get_by_label("Filter")).to_have_value("dfw")


def test_a_server_that_restarts_is_told_of_and_caught_up_with(page: Page, planet: TarmacProcess) -> None:
    page.evaluate("location.hash = '#/any/core/v1/configmaps'")
    expect(page.locator("tbody tr").first).to_be_visible()
    planet.kill()
    expect(page.get_by_text("The connection is lost")).to_be_visible()
    planet.start()
    kubectl(planet, "create", "configmap", "meanwhile")
    expect(page.get_by_role("link", name="meanwhile")).to_have_count(1)
    expect(page.get_by_text("The connection is lost")).to_have_count(0)


def test_the_servers_own_page_asks_for_a_token_and_shows_what_it_may(planet: TarmacProcess) -> None:
    kubectl(planet, "create", "namespace", "shop")
    kubectl(planet, "create", "serviceaccount", "viewer", "-n", "shop")
    kubectl(
        planet, "create", "rolebinding", "viewers", "--clusterrole=view", "--serviceaccount=shop:viewer", "-n", "shop"
    )
    kubectl(planet, "apply", "-n", "shop", "-f", str(EXAMPLE))
    token = kubectl(planet, "create", "token", "viewer", "-n", "shop").strip()
    with browser_page() as page:
        page.goto(f"{planet.url}/dashboard/")
        page.get_by_label("A token").fill("not a token")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("does not accept the token")
        page.get_by_label("A token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Nodes").click()
        expect(page.get_by_role("alert")).to_contain_text("You don't have permission to see this")
        page.evaluate("location.hash = '#/workloads/shop/web/yaml'")
        expect(page.get_by_text("You may not delete workloads here.")).to_be_visible()
        expect(page.get_by_role("button", name="Delete…")).to_be_disabled()
        assert token not in page.url
        assert page.evaluate("sessionStorage.length") == 0
