"""The dashboard on real nodes: a shell, logs of crashed containers, and many streams at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.browser import browser_page, dashboard
from tests.node.planet import Planet, busybox, pod

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

KINDS = ("pods", "namespaces", "configmaps", "services", "serviceaccounts")
LISTS = ("#/nodes", *(f"#/any/core/v1/{each}" for each in KINDS))
HOSTILE = r"<img src=x onerror=alert(1)>\033]0;stolen\007\033]52;c;c3RvbGVu\007\033]8;;https://evil.example/\007link\033]8;;\007"
TALKS = f"printf '{HOSTILE}\\n'; trap 'exit 0' TERM; n=0; while :; do n=$((n+1)); echo tick $n; sleep 0.2; done"


@pytest.fixture(scope="module")
def page(planet: Planet) -> Iterator[Page]:
    planet.apply(pod("talks", busybox(script=TALKS)), pod("crashes", busybox(script="echo last words; exit 3")))
    planet.wait("pod/talks", "condition=Ready")
    try:
        with dashboard(planet.process.kubeconfig) as address, browser_page() as made:
            made.goto(address)
            expect(made.get_by_role("heading", name="Planet")).to_be_visible()
            yield made
    finally:
        planet.remove("talks", "crashes")


def shown(page: Page, fragment: str) -> None:
    page.evaluate(f"location.hash = {fragment!r}")


def test_a_shell_is_typed_in_resized_ended_and_opened_again(page: Page) -> None:
    shown(page, "#/instances/default/talks/terminal")
    screen = page.locator(".console")
    expect(screen).to_contain_text("/ #")
    page.keyboard.type("echo $((6*7))-is-it\n")
    expect(screen).to_contain_text("42-is-it")
    page.keyboard.type("echo $(stty size | cut -d' ' -f2)-wide\n")
    expect(screen).to_contain_text(re.compile(r"1[0-9]{2}-wide"))
    page.set_viewport_size({"width": 700, "height": 720})
    page.keyboard.type("clear; echo $(stty size | cut -d' ' -f2)-narrow\n")
    expect(screen).to_contain_text(re.compile(r"(?<!\d)[67][0-9]-narrow"))
    page.keyboard.type(f"printf '{HOSTILE}\\n'\n")
    expect(screen).to_contain_text("onerror")
    assert page.title() == "Tarmac"
    assert screen.locator("a, img").count() == 0
    page.keyboard.type("exit\n")
    expect(page.locator("main").get_by_role("status")).to_contain_text("The shell has ended.")
    page.get_by_role("button", name="Connect again").click()
    expect(page.get_by_text("The shell has ended.")).to_have_count(0)
    expect(screen).to_contain_text("/ #")
    page.keyboard.type("echo $((6*7))-again\n")
    expect(screen).to_contain_text("42-again")


def test_the_log_of_what_crashes_has_its_last_words_and_escapes_are_seen(page: Page) -> None:
    shown(page, "#/instances/default/crashes/logs")
    expect(page.get_by_label("Log", exact=True)).to_contain_text("last words")
    shown(page, "#/instances/default/talks/logs")
    expect(page.get_by_label("Log", exact=True)).to_contain_text("␛]52;c;")
    expect(page.get_by_label("Log", exact=True)).to_contain_text("tick")
    assert page.title() == "Tarmac"


def test_six_lists_ten_logs_and_two_terminals_do_not_wait_for_each_other(page: Page) -> None:
    """The tabs belong to one browser, which has six connections to a server for all of them."""
    logs = ["#/instances/default/talks/logs"] * 10
    shells = ["#/instances/default/talks/terminal"] * 2
    tabs: list[Page] = []
    for fragment in (*LISTS, *logs, *shells):
        with page.expect_popup() as made:
            page.evaluate(f"window.open(location.pathname + {fragment!r})")  # which copies the session
        tabs.append(made.value)
    for tab in tabs[:6]:
        expect(tab.locator("tbody tr").first).to_be_visible()
    for tab in tabs[6:16]:
        expect(tab.get_by_label("Log", exact=True)).to_contain_text("tick")
    for number, tab in enumerate(tabs[16:]):
        expect(tab.locator(".console")).to_contain_text("/ #")
        tab.bring_to_front()
        tab.locator(".xterm-helper-textarea").focus()
        tab.keyboard.type(f"echo $((6*7))-{number}\n")
        expect(tab.locator(".console")).to_contain_text(f"42-{number}")
    # All are open now: a list must still be fetched and followed.
    shown(page, "#/any/core/v1/services")
    expect(page.get_by_role("link", name="kubernetes", exact=True)).to_be_visible()
    for tab in tabs:
        tab.close()
