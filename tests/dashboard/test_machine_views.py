"""Virtual machines in the page: console, screen, power and recordings, with a fake node."""

from __future__ import annotations

import json
import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.machinefakes import COLOUR, FakeConsole, FakeScreen, serve_recordings
from tests.dashboard.views import instance_of
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(180)]

HOSTILE = (
    '<img src=x onerror="document.title=1">\u202e'
    "\u001b]0;stolen\u0007\u001b]2;stolen\u0007\u001b]52;c;c3RvbGVu\u0007\u001b]8;;https://evil.example/\u0007link\u001b]8;;\u0007"
)
WITHOUT_CLIPBOARD = """() => {
  window.copied = [];
  navigator.clipboard.writeText = (text) => { window.copied.push(text); return Promise.resolve(); };
}"""


@pytest.fixture(scope="module")
def machine(full_planet: TarmacProcess) -> str:
    return instance_of(full_planet, "vm")


@pytest.fixture(scope="module")
def page(full_planet: TarmacProcess) -> Generator[Page]:
    with dashboard(full_planet.kubeconfig) as address, browser_page() as made:
        made.goto(address)
        yield made


def opened(page: Page, machine: str, tab: str) -> None:
    """Open a tab of the machine from another view, so that nothing of an earlier test is left."""
    page.evaluate("location.hash = '#/change'")
    expect(page.get_by_role("heading", name="Change")).to_be_visible()
    page.evaluate(f"location.hash = '#/instances/default/{machine}/{tab}'")


def test_a_console_goes_on_from_the_byte_at_which_it_broke(page: Page, machine: str) -> None:
    console = FakeConsole()
    console.serve(page)
    page.evaluate(WITHOUT_CLIPBOARD)
    opened(page, machine, "terminal")
    terminal = page.locator(".console")
    expect(page.get_by_text("The keyboard is free")).to_be_visible()
    console.notice(session="s", attempt=2, offset=100, recorded=True, keyboard=True, writer=None)
    console.output(f"login: {HOSTILE}\r\n".encode())
    expect(page.get_by_text("● Recorded. You have the keyboard.")).to_be_visible()
    expect(terminal).to_contain_text("onerror")
    page.keyboard.type("root")
    console.sockets[-1].close(code=4000)
    expect(page.get_by_text("connecting again")).to_be_visible()
    expect(page.get_by_text("You have the keyboard")).to_be_visible()
    sent = 100 + len(f"login: {HOSTILE}\r\n".encode())
    assert console.opened == ["stdin=true", f"stdin=true&since=2%3A{sent}"]
    assert console.typed == b"root"
    assert terminal.locator("a, img").count() == 0
    assert (page.title(), page.evaluate("window.copied")) == ("Tarmac", [])
    page.keyboard.press("Control+]")
    assert page.evaluate("document.activeElement.id") == "main"
    console.notice(keyboard=False, writer={"user": HOSTILE, "since": ""})
    expect(page.locator("main").get_by_role("status")).to_contain_text("⟨202e⟩")
    page.get_by_role("button", name="Take the keyboard").click()
    expect(page.get_by_text("The keyboard is free")).to_be_visible()
    assert console.opened[-1] == "stdin=true&takeover=true"


def test_a_screen_is_drawn_from_raw_pixels_and_gives_the_keys_back(page: Page, machine: str) -> None:
    screen = FakeScreen()
    screen.serve(page)
    opened(page, machine, "screen")
    expect(page.get_by_text("Connected. One client at a time")).to_be_visible()
    canvas = "document.querySelector('.screen canvas')"
    drawn = f"[...{canvas}.getContext('2d').getImageData(5, 5, 1, 1).data]"
    for _ in range(100):
        if page.evaluate(f"{canvas}.width ? {drawn} : []")[:3] == list(COLOUR):
            break
        page.wait_for_timeout(50)  # no event marks a drawn picture
    assert page.evaluate(drawn)[:3] == list(COLOUR)
    page.evaluate(f"{canvas}.focus()")
    page.keyboard.type("a")
    page.keyboard.press("Control+]")
    assert page.evaluate("document.activeElement.id") == "main"
    page.get_by_role("button", name="Send Ctrl-Alt-Del").click()
    expect(page.get_by_text("Connected.")).to_be_visible()
    assert ord("a") in screen.keys
    assert ord("]") not in screen.keys


def test_power_is_asked_about_first_and_a_refusal_is_told(page: Page, machine: str) -> None:
    pressed: list[str] = []

    def answer(route: Route) -> None:
        pressed.append(json.loads(route.request.post_data or "{}")["action"])
        refused = {"kind": "Status", "message": "the machine is paused: resume or reset it", "code": 409}
        route.fulfill(status=409 if pressed[-1] == "Reboot" else 200, json=refused if pressed[-1] == "Reboot" else {})

    page.route(lambda url: "/power?" in url, answer)
    opened(page, machine, "screen")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Pause is done.")).to_be_visible()
    page.get_by_role("button", name="Reset").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("loses data not yet written")
    page.get_by_role("button", name="Leave it").click()
    assert pressed == ["Pause"]
    page.get_by_role("button", name="Reboot").click()
    page.get_by_role("button", name="Reboot now").click()
    expect(page.get_by_role("alert")).to_contain_text("the machine is paused")
    assert pressed == ["Pause", "Reboot"]


def test_a_recording_plays_pauses_seeks_and_changes_its_speed(page: Page, machine: str) -> None:
    header = {"version": 2, "width": 80, "height": 24, "title": HOSTILE, "tarmac": {"user": HOSTILE, "kind": "console"}}
    events = [[0, "o", "first\r\n"], [0.2, "o", HOSTILE], [1, "r", "100x30"], [2, "m", HOSTILE], [600, "o", "last\r\n"]]
    serve_recordings(page, "\n".join(map(json.dumps, [header, *events])), user=HOSTILE)
    page.evaluate(WITHOUT_CLIPBOARD)
    opened(page, machine, "recordings")
    page.get_by_role("link", name="Play abc").click()
    shown = page.locator(".replay")
    expect(shown).to_contain_text("first")
    expect(shown).not_to_contain_text("last")
    page.get_by_label("Speed").select_option("16×")
    page.get_by_role("button", name="Play", exact=True).click()
    expect(shown).to_contain_text("onerror")
    page.get_by_role("button", name="Pause", exact=True).click()
    moment = page.get_by_label("Moment")
    at = float(moment.input_value())
    assert 0.2 <= at < 600
    moment.fill("600")
    expect(shown).to_contain_text("last")
    moment.fill("0")
    expect(shown).not_to_contain_text("last")
    expect(page.get_by_text("0:00 of 10:00")).to_be_visible()
    page.locator(".marks").get_by_role("button", name="0:02").click()
    expect(shown).to_contain_text("onerror")
    assert re.search(r"session=abc$", page.url)
    assert page.locator("main a[href*=evil], main img").count() == 0
    assert (page.title(), page.evaluate("window.copied")) == ("Tarmac", [])
    assert "\u202e" not in page.locator("main h2").inner_text() + page.locator(".marks").inner_text()


def test_broken_recordings_and_stopped_machines_are_named(page: Page, machine: str) -> None:
    serve_recordings(page, "<html>")
    opened(page, machine, "recordings?session=abc")
    expect(page.get_by_role("alert")).to_contain_text("no recording")
    page.unroute_all()
    opened(page, machine, "recordings")
    expect(page.get_by_role("main")).to_contain_text("recorded")


def test_a_screen_that_a_node_does_not_have_is_replaced_by_the_reason_and_a_way_on(
    full_planet: TarmacProcess, machine: str
) -> None:
    with dashboard(full_planet.kubeconfig) as address, browser_page() as page:
        page.goto(address)
        opened(page, machine, "screen")
        said = page.get_by_role("alert")
        expect(said).to_contain_text("The screen could not be opened.")
        expect(said).to_contain_text("The command below prints the reason.")
        expect(page.locator(".screen")).to_have_count(0)
        expect(said.get_by_role("button", name="Connect again")).to_be_visible()
        said.get_by_role("link", name="Open its console").click()
        expect(page.locator("main .tabs [aria-current]")).to_have_text("terminal")
