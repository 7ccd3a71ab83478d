"""A user with few rights: a page that is complete for this user, names missing rights, and offers no action in vain."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Generator

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.dashboard.browser import browser_page
from tests.dashboard.editing import paste
from tests.dashboard.views import EXAMPLE, instance_of, kubectl, removed_afterwards
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(180)]
INSIDE = ("exec", "attach", "portforward", "console", "vnc", "power")


def viewer(planet: TarmacProcess, name: str) -> str:
    """Return the token of a user who may read `default` and nothing else."""
    kubectl(planet, "create", "serviceaccount", name)
    kubectl(planet, "create", "rolebinding", name, "--clusterrole=view", f"--serviceaccount=default:{name}")
    return kubectl(planet, "create", "token", name).strip()


def editor_without_terminals(planet: TarmacProcess, name: str) -> str:
    """Return the token of a user with the role `edit` in `default`, without access to terminals."""
    rules = json.loads(kubectl(planet, "get", "clusterrole", "edit", "-o", "json"))["rules"]
    for rule in rules:
        rule["resources"] = [each for each in rule["resources"] if each.partition("/")[2] not in INSIDE]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    kubectl(
        planet, "apply", "-f", "-", stdin=json.dumps({**role, "rules": [each for each in rules if each["resources"]]})
    )
    kubectl(planet, "create", "serviceaccount", name)
    kubectl(planet, "create", "rolebinding", name, f"--clusterrole={name}", f"--serviceaccount=default:{name}")
    return kubectl(planet, "create", "token", name).strip()


def enter(page: Page, planet: TarmacProcess, token: str) -> None:
    page.goto(f"{planet.url}/dashboard/")
    page.get_by_label("A token").fill(token)
    page.get_by_role("button", name="Sign in").click()


@pytest.fixture
def page() -> Generator[Page]:
    with browser_page() as made:
        yield made


def test_a_viewer_of_one_namespace_has_a_complete_page(page: Page, full_planet: TarmacProcess) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    enter(page, full_planet, viewer(full_planet, "viewer"))
    for city in ("DFW", "SEA"):  # on the map although this user may not read Locations
        expect(page.locator("svg.map").get_by_text(re.compile(f"^{city} "))).to_be_visible()
    expect(page.get_by_label("Namespace")).to_have_value("default")
    for view, shown in (("Workloads", "web"), ("Networks", "default"), ("Egress", "my-externalservice")):
        page.get_by_role("link", name=view).click()
        expect(page.get_by_role("link", name=shown, exact=True)).to_be_visible()
        assert "ns=default" in page.url
    expect(page.get_by_role("alert").first).to_contain_text(
        "You don't have permission to see this"
    )  # addresses belong to the cluster
    expect(page.locator(".command")).to_contain_text("-n default")
    page.get_by_role("link", name="Nodes").click()
    expect(page.get_by_role("alert")).to_contain_text("cannot list resource")
    vm = instance_of(full_planet, "vm")
    page.evaluate(f"location.hash = '#/instances/default/{vm}/screen'")
    expect(page.get_by_role("button", name="Reset")).to_be_disabled()
    expect(page.get_by_text("You may not create instances/power in default.")).to_be_visible()
    page.evaluate(f"location.hash = '#/instances/default/{vm}/recordings'")
    expect(page.get_by_role("alert")).to_contain_text("You don't have permission to see this")
    page.evaluate("location.hash = '#/external/default/my-externalservice'")
    expect(page.get_by_text("Failovers are not known")).to_be_visible()
    before = len([each for each in asked if "/sourceips" in each])
    with page.expect_request(lambda request: "/why?" in request.url, timeout=15_000):
        pass  # permitted paths are requested again, the rest is not
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
    without_credentials = ("/livez", "/dashboard/sign-in?pretty=false")
    page.on("request", lambda each: None if each.url.endswith(without_credentials) else asked.append(each.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    page.wait_for_timeout(3000)  # longer than the first pauses after which a lost watch would come again
    assert asked == []
    assert page.url == here
    page.get_by_label("A token").fill(other)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("region", name="Why")).to_contain_text("ready")
    assert page.url == here


def test_a_user_without_exec_sees_the_missing_right_in_place_of_a_terminal(
    page: Page, full_planet: TarmacProcess
) -> None:
    refused, streams = Counter[str](), list[str]()
    page.on("response", lambda answer: refused.update([answer.url] if answer.status == 403 else []))
    page.on("websocket", lambda socket: streams.append(socket.url))
    enter(page, full_planet, editor_without_terminals(full_planet, "editor"))
    web, vm = instance_of(full_planet, "web"), instance_of(full_planet, "vm")
    for instance, tab, button, right in (
        (web, "terminal", "Open a terminal", "pods/exec"),
        (vm, "terminal", "Open the console", "instances/console"),
        (vm, "screen", "Open the screen", "instances/vnc"),
    ):
        page.evaluate(f"location.hash = '#/instances/default/{instance}/{tab}'")
        expect(page.get_by_role("alert")).to_contain_text(f"You may not create {right} in default.")
        expect(page.get_by_role("button", name=button)).to_be_disabled()
        expect(page.get_by_role("button", name="Connect again")).to_have_count(0)
    expect(page.get_by_role("button", name="Reset")).to_be_disabled()
    page.evaluate(f"location.hash = '#/instances/default/{web}/logs'")
    expect(page.get_by_role("main")).to_contain_text("a simulated node")  # readable
    page.evaluate("location.hash = '#/workloads/default/web'")
    expect(page.get_by_role("button", name="Delete…")).to_be_enabled()
    page.get_by_role("link", name="rollout").click()
    expect(page.get_by_role("button", name="Pause")).to_be_enabled()
    page.get_by_role("link", name="Change it").click()
    paste(page, EXAMPLE.read_text().replace("name: web\nspec", "name: theirs\nspec"))
    page.keyboard.press("Control+Enter")
    with removed_afterwards(full_planet, "workload/theirs"):
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_text("default/theirs is applied")).to_be_visible()
        page.get_by_role("link", name="Workloads").click()
        expect(page.get_by_role("link", name="theirs", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="theirs", exact=True)).to_have_count(0)
    page.get_by_role("link", name="Egress").click()
    page.get_by_role("link", name="my-externalservice").click()
    expect(page.get_by_text("Failovers are not known")).to_be_visible()
    with page.expect_request(lambda request: "/why?" in request.url, timeout=15_000):
        pass  # requested again, like all five-second polls
    assert not [each for each in streams if re.search(r"/(exec|console|vnc)\?", each)]
    places = [url for url in refused if "/locations?" in url]  # for the planet's map and for the preview's
    assert {url: count for url, count in refused.items() if count > (2 if url in places else 1)} == {}


def test_a_user_with_one_instance_sees_the_missing_rights_named(page: Page, full_planet: TarmacProcess) -> None:
    seen = {"apiGroups": ["compute.datumapis.com"], "resources": ["instances", "instances/why"], "verbs": ["get"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [seen]}
    metadata = {"name": "narrow", "namespace": "default"}
    kubectl(full_planet, "apply", "-f", "-", stdin=json.dumps({**role, "metadata": metadata}))
    kubectl(full_planet, "create", "serviceaccount", "narrow")
    kubectl(full_planet, "create", "rolebinding", "narrow", "--role=narrow", "--serviceaccount=default:narrow")
    enter(page, full_planet, kubectl(full_planet, "create", "token", "narrow").strip())
    web = instance_of(full_planet, "web")
    page.evaluate(f"location.hash = '#/instances/default/{web}'")
    overview = page.get_by_role("region", name="Overview")
    expect(overview).to_contain_text("eth0 on default/default: ")
    expect(overview).to_contain_text("together: cpu 100m, memory 128Mi")
    expect(overview).to_contain_text(
        re.compile("You don't have permission to see policies.*cannot list resource .networkpolicies.")
    )
    expect(overview).to_contain_text(re.compile("You don't have permission to see its Pod.*cannot get resource .pods."))
    expect(overview).not_to_contain_text("None selects it")
    expect(page.get_by_role("region", name="Why")).to_contain_text("ready")
    page.evaluate(f"location.hash = '#/any/compute.datumapis.com/v1alpha/instances/default/{web}/events'")
    expect(page.get_by_role("alert")).to_contain_text('cannot list resource "events"')


def test_a_viewer_is_offered_no_change(page: Page, full_planet: TarmacProcess) -> None:
    enter(page, full_planet, viewer(full_planet, "reader"))
    page.evaluate("location.hash = '#/workloads/default/web'")
    expect(page.get_by_text("You may not change workloads here.")).to_be_visible()
    expect(page.get_by_role("link", name="Change it")).to_have_count(0)


def test_a_right_that_is_taken_away_takes_the_list_with_it_and_nothing_is_asked_for_again(
    page: Page, full_planet: TarmacProcess
) -> None:
    sockets: list[WebSocketRoute] = []

    def through(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    page.route_web_socket(lambda url: "/workloads?" in url, through)
    enter(page, full_planet, viewer(full_planet, "former"))
    page.get_by_role("link", name="Workloads").click()
    expect(page.get_by_role("link", name="web", exact=True)).to_be_visible()
    kubectl(full_planet, "delete", "rolebinding", "former")
    sockets[-1].close(code=4000)  # an open watch continues; the next one is rejected
    expect(page.get_by_role("alert")).to_contain_text("You don't have permission to see this")
    expect(page.get_by_role("link", name="web", exact=True)).to_have_count(0)
    expect(page.get_by_text("The connection is lost")).to_have_count(0)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if not request.url.endswith("/livez") else None)
    page.on("websocket", lambda socket: asked.append(socket.url))
    page.wait_for_timeout(3000)  # longer than the first pauses after which a lost watch would come again
    assert asked == []
