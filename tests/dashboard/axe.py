"""The findings of axe-core on the current page, and a check of its width."""

from __future__ import annotations

from playwright.sync_api import Page


def wrong(page: Page) -> list[str]:
    """Return all problems of the current page."""
    found: list[str] = page.evaluate(
        "axe.run().then((found) => found.violations.map((each) => each.id + ' ' + each.nodes[0].html))"
    )
    return [*found, *wide(page)]


def wide(page: Page) -> list[str]:
    return ["wider than the screen"] if page.evaluate("document.documentElement.scrollWidth > innerWidth") else []
