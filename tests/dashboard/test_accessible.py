"""Accessibility: axe-core finds no problem in any view, in either theme, on screens of three widths."""

from __future__ import annotations

from itertools import product

import pytest
from playwright.sync_api import expect

from tests.dashboard.axe import wide, wrong
from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.machinefakes import serve_machine
from tests.dashboard.views import STATES, VIEWS, instance_views, reach, show
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(600)]
WIDTHS = (1280, 768, 360)


def test_no_view_violates_a_rule_and_none_is_wider_than_its_screen(full_planet: TarmacProcess, axe: str) -> None:
    found: list[str] = []
    with dashboard(full_planet.kubeconfig) as address, browser_page() as page:
        page.goto(address)
        serve_machine(page)
        page.evaluate(axe)
        views = {**VIEWS, **instance_views(full_planet)}
        for width, scheme in product(WIDTHS, ("light", "dark")):
            page.set_viewport_size({"width": width, "height": 720})
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            for view, where in views.items():
                show(page, where)
                found += [f"{view} {scheme} {width}: {each}" for each in wrong(page)]
            for state in STATES:
                reach(page, state)
                found += [f"{state} {scheme} {width}: {each}" for each in (wrong(page) if width > 360 else wide(page))]
                page.keyboard.press("Escape")
                expect(page.get_by_role("dialog")).to_have_count(0)
    assert found == []
