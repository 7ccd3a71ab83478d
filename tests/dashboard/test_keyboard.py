"""Each task of the page by keyboard alone: no click, and only keys move the focus."""

from __future__ import annotations

import json
import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.hostile import HOSTILE
from tests.dashboard.logfakes import FakeLog, FakeShell
from tests.dashboard.lostcity import forget, found, heard
from tests.dashboard.views import EXAMPLE, instance_of, kubectl, removed_afterwards
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(180)]
VIEWS = {"w": "Workloads", "i": "Instances", "n": "Nodes"}
FARTHEST = 80
"""Presses of Tab after which an element counts as out of reach."""


@pytest.fixture
def page(full_planet: TarmacProcess) -> Generator[Page]:
    with dashboard(full_planet.kubeconfig) as address, browser_page() as made:
        made.goto(address)
        expect(made.get_by_role("heading", name="Planet")).to_be_visible()
        yield made


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until the element has the focus, visibly."""
    expect(wanted).to_be_visible()
    for _ in range(FARTHEST):
        press(page, "Tab")
        if wanted.evaluate("(each) => each === document.activeElement"):
            assert wanted.evaluate("(each) => getComputedStyle(each).outlineStyle") != "none"
            return
    pytest.fail(f"no way to {wanted} by Tab")


def open_row(page: Page, letter: str, name: str) -> None:
    """Open a view by its letter, then one of its rows by the filter."""
    press(page, "g", letter)
    expect(page.get_by_role("heading", name=VIEWS[letter], exact=True)).to_be_visible()
    expect(page.get_by_label("Filter")).to_be_visible()
    press(page, "/")
    page.keyboard.type(name)
    row = page.get_by_role("link", name=name, exact=True)
    expect(row).to_be_visible()
    press(page, "Escape")
    for _ in range(FARTHEST):
        press(page, "j")
        if row.evaluate("(each) => each === document.activeElement"):
            break
    expect(row).to_be_focused()
    press(page, "Enter")
    expect(page.locator("main h1")).to_contain_text(name)


def open_kind(page: Page, kind: str) -> None:
    """Open all objects of a kind, by the palette."""
    press(page, "Control+k")
    page.keyboard.type(kind)
    expect(page.get_by_role("dialog").get_by_role("option", selected=True)).to_contain_text(f"{kind} core")
    press(page, "Enter")


@pytest.fixture
def keyed(full_planet: TarmacProcess) -> Generator[str]:
    """Create a workload, ready, in its second revision."""
    named = EXAMPLE.read_text().replace("name: web\nspec", "name: keyed\nspec")
    change = {"spec": {"template": {"metadata": {"annotations": {"note": "second"}}}}}
    with removed_afterwards(full_planet, "workload/keyed"):
        kubectl(full_planet, "apply", "-f", "-", stdin=named)
        kubectl(full_planet, "wait", "--for=condition=Ready", "workload/keyed", "--timeout=60s")
        kubectl(full_planet, "patch", "workload", "keyed", "--type=merge", "-p", json.dumps(change))
        kubectl(full_planet, "wait", "--for=condition=Ready", "workload/keyed", "--timeout=60s")
        yield "keyed"


@pytest.fixture
def config_maps(full_planet: TarmacProcess) -> Generator[None]:
    with removed_afterwards(full_planet, "configmap/before", "configmap/before-long", "configmap/hostile"):
        yield


def token_of(planet: TarmacProcess, name: str) -> str:
    kubectl(planet, "create", "serviceaccount", name)
    kubectl(planet, "create", "rolebinding", name, "--clusterrole=view", f"--serviceaccount=default:{name}")
    return kubectl(planet, "create", "token", name).strip()


def test_a_first_look_with_few_rights_and_a_token_that_is_no_longer_accepted(full_planet: TarmacProcess) -> None:
    first, second = token_of(full_planet, "keys-first"), token_of(full_planet, "keys-second")
    with browser_page() as page:
        page.goto(f"{full_planet.url}/dashboard/")
        tab_to(page, page.get_by_label("A token"))
        page.keyboard.type(first)
        press(page, "Enter")
        expect(page.get_by_role("heading", name="Planet")).to_be_visible()
        tab_to(page, page.get_by_label("Namespace"))
        expect(page.get_by_label("Namespace")).to_have_value("default")
        tab_to(page, page.get_by_role("button", name="Keys"))
        open_row(page, "w", "web")
        press(page, "w")
        expect(page.get_by_role("region", name="Why")).to_contain_text("ready")
        here = page.url
        kubectl(full_planet, "delete", "serviceaccount", "keys-first")
        expect(page.get_by_role("alert")).to_contain_text("does not accept the token")
        tab_to(page, page.get_by_label("A token"))
        page.keyboard.type(second)
        press(page, "Enter")
        expect(page.get_by_role("region", name="Why")).to_contain_text("ready")
        assert page.url == here
        instance = instance_of(full_planet, "web")
        open_row(page, "i", instance)
        press(page, "s")
        expect(page.get_by_role("alert")).to_contain_text("You may not create pods/exec")


def test_a_city_of_the_map_a_node_and_its_tabs(page: Page) -> None:
    tab_to(page, page.locator("svg.map a").filter(has_text="DFW"))
    press(page, "Enter")
    tab_to(page, page.get_by_role("region", name="City DFW").get_by_role("link", name="Instances in DFW"))
    press(page, "Enter")
    expect(page.get_by_role("heading", name="Instances in DFW")).to_be_visible()
    open_row(page, "n", "dfw-1")
    expect(page.get_by_role("region", name="Ledger", exact=True)).to_be_visible()
    press(page, "]")
    expect(page.locator("main .tabs [aria-current]")).to_have_text("pods")


def test_keys_pressed_before_the_page_is_drawn_anew_all_count(page: Page) -> None:
    open_row(page, "w", "web")
    press_next = "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: ']', bubbles: true }));"
    page.evaluate(press_next * 3)
    expect(page.locator("main .tabs [aria-current]")).to_have_text("rollout")
    press(page, "g", "w", "/")
    expect(page.get_by_label("Filter")).to_be_focused()


def test_a_rollout_is_paused_resumed_and_undone(page: Page, keyed: str) -> None:
    open_row(page, "w", keyed)
    press(page, "]", "]", "]")
    expect(page.locator("main .tabs [aria-current]")).to_have_text("rollout")
    tab_to(page, page.get_by_role("button", name="Pause"))
    press(page, "Enter")
    expect(page.get_by_role("region", name="Rollout")).to_contain_text("It is paused")
    expect(page.get_by_role("button", name="Resume")).to_be_focused()
    press(page, "Space")
    expect(page.get_by_role("region", name="Rollout")).to_contain_text("Every instance")
    press(page, "]", "]")
    tab_to(page, page.get_by_role("button", name="Compare 1 with the present"))
    press(page, "Enter")
    tab_to(page, page.get_by_role("button", name="Undo to revision 1"))
    press(page, "Enter")
    dialog = page.get_by_role("dialog")
    tab_to(page, dialog.get_by_role("button", name="Undo", exact=True))
    press(page, "Enter")
    expect(page.get_by_role("status")).to_contain_text(["keyed goes back to revision 1"])
    expect(dialog).to_have_count(0)


def test_the_log_of_what_crashed(page: Page, full_planet: TarmacProcess) -> None:
    log = FakeLog(
        greeting=b"2026-11-17T06:00:09Z starting\n",
        once="2026-11-17T06:00:00Z starting\n2026-11-17T06:00:03Z panic: out of paper\n",
    )
    log.serve(page)
    open_row(page, "i", instance_of(full_planet, "web"))
    press(page, "l")
    text = page.get_by_role("log", name="Log")
    expect(text).to_have_text("starting")
    tab_to(page, page.get_by_label("Since"))
    press(page, "ArrowDown")
    expect(page.locator("main .command")).to_contain_text("--since=1m")
    tab_to(page, page.get_by_label("Before its last restart"))
    press(page, "Space")
    expect(text).to_contain_text("panic: out of paper")
    tab_to(page, page.get_by_label("Times"))
    press(page, "Space")
    tab_to(page, page.get_by_label("Find"))
    page.keyboard.type("panic")
    expect(text).to_have_text("2026-11-17T06:00:03Z panic: out of paper")
    tab_to(page, text)
    tab_to(page, page.get_by_role("button", name=re.compile("^Copy kubectl logs")))


def test_a_terminal_is_typed_in_resized_cut_and_come_back_to(page: Page, full_planet: TarmacProcess) -> None:
    shell = FakeShell()
    shell.serve(page)
    open_row(page, "i", instance_of(full_planet, "web"))
    press(page, "s")
    terminal = page.locator(".console")
    expect(terminal).to_contain_text("$")
    page.keyboard.type("g w ls?")
    expect(terminal).to_contain_text("g w ls?")  # letters go to the shell here, not to the page
    page.set_viewport_size({"width": 800, "height": 600})
    for _ in range(100):
        if len(shell.sizes) > 1:
            break
        page.wait_for_timeout(50)  # the size is sent in the background, without a visible effect
    assert shell.sizes[-1]["Width"] < shell.sizes[0]["Width"]
    shell.sockets[-1].close(code=4000)
    expect(page.get_by_text("The connection was lost.")).to_be_visible()
    press(page, "Control+]")
    assert page.evaluate("document.activeElement.id") == "main"
    tab_to(page, page.get_by_role("button", name="Connect again"))
    press(page, "Enter")
    expect(page.get_by_text("The connection was lost.")).to_have_count(0)
    expect(terminal).to_contain_text("$")
    page.keyboard.type("again")
    expect(terminal).to_contain_text("again")
    assert shell.typed == b"g w ls?again"
    press(page, "Control+]", "g", "n")
    expect(page.get_by_role("heading", name="Nodes")).to_be_visible()


def test_a_lost_city_is_found_out_about(page: Page, full_planet: TarmacProcess) -> None:
    found(full_planet)
    try:
        heard(full_planet, "Unknown")
        expect(page.get_by_role("main").get_by_role("status")).to_contain_text("FRA is lost")
        tab_to(page, page.locator("svg.map a").filter(has_text="FRA"))
        press(page, "Enter")
        tab_to(page, page.get_by_role("region", name="City FRA").get_by_role("link", name="Instances in FRA"))
        press(page, "Enter")
        expect(page.get_by_role("heading", name="Instances in FRA")).to_be_visible()
        expect(page.get_by_text("No instance is here.")).to_be_visible()
        open_row(page, "n", "fra-0")
        expect(page.get_by_role("row", name=re.compile("^Ready Unknown"))).to_contain_text("said by a test")
        heard(full_planet, "True")
        press(page, "g", "p")
        expect(page.get_by_role("row", name=re.compile("^FRA "))).to_contain_text("● Ready")
        expect(page.get_by_text("FRA is lost")).to_have_count(0)
    finally:
        forget(full_planet)


@pytest.mark.usefixtures("config_maps")
def test_a_server_that_restarts_leaves_the_focus_where_it_was(page: Page, full_planet: TarmacProcess) -> None:
    kubectl(full_planet, "create", "configmap", "before")
    open_kind(page, "ConfigMap")
    before = page.get_by_role("link", name="before", exact=True)
    tab_to(page, before)
    full_planet.kill()
    expect(page.get_by_text("The connection is lost")).to_be_visible()
    expect(before).to_be_focused()
    full_planet.start()
    kubectl(full_planet, "create", "configmap", "before-long")
    expect(page.get_by_text("The connection is lost")).to_have_count(0)
    expect(page.get_by_role("link", name="before-long")).to_be_visible()
    expect(before).to_be_focused()
    press(page, "j")
    expect(page.get_by_role("link", name="before-long")).to_be_focused()
    press(page, "Enter")
    expect(page.locator("pre")).to_contain_text("before-long")


@pytest.mark.usefixtures("config_maps")
def test_hostile_strings_catch_no_key_and_no_focus(page: Page, full_planet: TarmacProcess) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hostile", "annotations": {"a": HOSTILE}}}
    kubectl(full_planet, "create", "-f", "-", stdin=json.dumps(config))
    press(page, "Control+k")
    page.keyboard.type(HOSTILE[:60])
    expect(page.get_by_role("dialog")).to_contain_text("No matches")
    press(page, "Escape")
    open_kind(page, "ConfigMap")
    expect(page.get_by_label("Filter")).to_be_visible()
    press(page, "/")
    expect(page.get_by_label("Filter")).to_be_focused()
    page.keyboard.type("<img")
    expect(page.get_by_text("Nothing matches.")).to_be_visible()
    tab_to(page, page.get_by_role("button", name="Clear the filter"))
    press(page, "Enter")
    tab_to(page, page.get_by_role("link", name="hostile", exact=True))
    press(page, "Enter")
    expect(page.locator("pre")).to_contain_text("onerror")
    tab_to(page, page.locator("pre"))
    tab_to(page, page.get_by_role("button", name="Delete…"))
    press(page, "y")
    expect(page.get_by_role("status").last).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "kubectl get configmaps hostile -n default -o yaml"
    assert page.title() == "Tarmac"
