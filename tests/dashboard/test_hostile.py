"""Foreign text stays text, in every field of every view: it does not run, hide, break the layout or get copied."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.hostile import HOSTILE, harm, serve_hostile_refusals, serve_hostile_words
from tests.dashboard.logfakes import FakeLog, FakeShell
from tests.dashboard.machinefakes import serve_machine, serve_recordings
from tests.dashboard.views import VIEWS, instance_of, instance_views, show
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(240)]
RECORDING = "\n".join(
    json.dumps(each)
    for each in (
        {"version": 2, "width": 80, "height": 24, "title": HOSTILE, "tarmac": {"user": HOSTILE, "kind": HOSTILE}},
        [0, "o", HOSTILE],
        [1, "m", HOSTILE],
        [2, HOSTILE, HOSTILE],
    )
)


@pytest.fixture
def page(full_planet: TarmacProcess) -> Generator[Page]:
    with dashboard(full_planet.kubeconfig) as address, browser_page() as made:
        made.set_viewport_size({"width": 360, "height": 720})
        made.goto(address)
        expect(made.get_by_role("heading", name="Planet")).to_be_visible()
        yield made


@pytest.mark.parametrize("serve", [serve_hostile_words, serve_hostile_refusals])
def test_no_view_is_harmed_by_what_the_server_says(
    page: Page, full_planet: TarmacProcess, serve: Callable[[Page], None]
) -> None:
    views = {**VIEWS, **instance_views(full_planet)}
    serve(page)
    serve_machine(page)
    serve_recordings(page, RECORDING, **dict.fromkeys(("user", "kind", "began", "ended"), HOSTILE))
    found = list[str]()
    for view, where in views.items():
        show(page, where)
        found += [f"{view}: {each}" for each in harm(page)]
    assert not found, "\n".join(found)


def test_a_shell_can_neither_name_the_page_nor_copy_nor_link(page: Page, full_planet: TarmacProcess) -> None:
    serve_hostile_words(page)
    shell = FakeShell(prompt=HOSTILE)
    shell.serve(page)
    log = FakeLog(greeting=f"2026-11-17T06:00:00Z {HOSTILE}\n".encode())
    log.serve(page)
    web = instance_of(full_planet, "web")
    page.evaluate(f"location.hash = '#/instances/default/{web}/terminal'")
    expect(page.locator(".console")).to_contain_text("xxx")
    assert page.locator(".console a").count() == 0
    assert harm(page) == []
    page.evaluate(f"location.hash = '#/instances/default/{web}/logs'")
    expect(page.get_by_role("log")).to_contain_text("onerror")
    assert harm(page) == []


LINKS = (
    *("instances/NS/NAME/why", "instances/NS/NAME/logs?c=NAME", "instances/NS/NAME/terminal"),
    *("instances/NS/NAME/events", "instances/NS/NAME/recordings?session=NAME", "workloads/NS/NAME/why"),
    *("workloads/NS/NAME/yaml", "nodes/NAME", "external/NS/NAME/why", "networks/NS/NAME"),
    *("networks/NS/NAME/ask?from=NAME&to=NAME&port=NAME", "any/NS/v1/NAME", "any/core/v1/NAME/NS/NAME"),
    *("any/core/v1/NAME/NS/NAME/events", "workloads?ns=NAME"),
)


def test_a_link_puts_no_more_than_words_into_a_command(page: Page) -> None:
    for at, address in enumerate(LINKS):
        evil = f"%24(reboot)%3B%20%E2%80%AE{at}"
        page.evaluate(f"location.hash = '#/{address.replace('NAME', evil).replace('NS', evil)}'")
        command = page.locator("main .command code")
        expect(command).to_contain_text(f"$(reboot); ⟨202e⟩{at}'")
        outside = "".join(command.inner_text().split("'")[::2])
        assert "$" not in outside, address
        assert ";" not in outside, address
