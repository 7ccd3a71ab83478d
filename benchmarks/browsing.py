"""What the dashboard takes in a real Chromium: until it shows something, of the browser's time, of its memory.

Each opening is a new browser with an empty cache, let in by the session of the first: the time is from the navigation
to the frame in which the thing is there, by the browser's own clock.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.dashboard.browser import browser_page, dashboard

_SESSION = "tarmac-session"
# When an element is first there, and every task that kept the page from answering.
_OBSERVE = """(selector) => {
  window.tasks = [];
  new PerformanceObserver((list) => list.getEntries().forEach((each) => window.tasks.push(each.duration)))
    .observe({ type: "longtask", buffered: true });
  const look = () => {
    if (document.querySelector(selector)) window.appeared = performance.now();
    else requestAnimationFrame(look);
  };
  look();
}"""
_SCROLL = """(seconds) => new Promise((done) => {
  const box = document.querySelector(".scroll");
  const begun = performance.now();
  let frames = 0;
  const step = () => {
    frames += 1;
    box.scrollTop = (box.scrollTop + 48) % Math.max(1, box.scrollHeight - box.clientHeight);
    const passed = performance.now() - begun;
    if (passed < seconds * 1000) requestAnimationFrame(step);
    else done((1000 * frames) / passed);
  };
  requestAnimationFrame(step);
})"""
# Milliseconds from an action to the frame in which the list shows its outcome.
_ACT = """async (action) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const count = () => document.querySelector("main .filter .muted")?.textContent;
  const before = count();
  const begun = performance.now();
  let shown;
  if (action === "sort") {
    document.querySelector("main thead button").click();
    shown = () => document.querySelector("main thead th").getAttribute("aria-sort") !== "none";
  } else if (action === "filter") {
    const field = document.querySelector("main [data-filter]");
    field.value = "rolled";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    shown = () => count() !== before;
  } else {
    location.hash = action;
    shown = () => document.querySelector("main tbody tr th") && count()?.endsWith(" of 10000");
  }
  while (!shown()) await frame();
  await frame();
  return performance.now() - begun;
}"""
_HIDE = """() => {
  Object.defineProperty(document, "hidden", { get: () => true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
_LOADED = """() => performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
  .filter((each) => each.name.includes("/dashboard/")).reduce((sum, each) => sum + each.encodedBodySize, 0)"""


class Dashboard:
    """`tarmac dashboard` that runs, and a session that lets browsers in."""

    def __init__(self, address: str) -> None:
        self._base = address.partition("#")[0]
        with browser_page() as page:
            page.goto(address)
            page.wait_for_selector("main h1")
            self._session: str = page.evaluate(f"sessionStorage.getItem({_SESSION!r})")

    @contextmanager
    def opened(self, fragment: str, selector: str, timeout: float = 60) -> Generator[Page]:
        """A new browser at a view, once the view has something."""
        with browser_page() as page:
            page.add_init_script(f"sessionStorage.setItem({_SESSION!r}, {json.dumps(self._session)})")
            page.add_init_script(f"({_OBSERVE})({json.dumps(selector)})")
            page.goto(self._base + fragment)
            page.wait_for_selector(selector, timeout=timeout * 1000)
            yield page

    def milliseconds(self, fragment: str, selector: str) -> float:
        """From opening a view until it has something."""
        with self.opened(fragment, selector) as page:
            return appeared(page)


@contextmanager
def dashboard_of(kubeconfig: Path) -> Generator[Dashboard]:
    """One on a planet."""
    with dashboard(kubeconfig) as address:
        yield Dashboard(address)


def appeared(page: Page) -> float:
    """Milliseconds until the view had something."""
    page.wait_for_timeout(50)  # the frame after
    return page.evaluate("window.appeared")


def loaded_bytes(page: Page) -> int:
    """What came over the wire of the page itself, as packed as it came."""
    return page.evaluate(_LOADED)


def longest_task(page: Page) -> float:
    """Milliseconds; 0 when none was long enough to be counted, which is 50."""
    return max(page.evaluate("window.tasks"), default=0.0)


def forget_tasks(page: Page) -> None:
    """What was so far was the opening."""
    page.evaluate("window.tasks = []")


def frames_while_scrolling(page: Page, seconds: float) -> float:
    """Frames in a second."""
    return page.evaluate(_SCROLL, seconds)


def milliseconds_of(page: Page, action: str) -> float:
    """Of `sort` or `filter` in the list that is open, or of opening it by its fragment."""
    return page.evaluate(_ACT, action)


def heap_mb(page: Page) -> float:
    """Of JavaScript, after what nobody needs has gone."""
    devtools: Any = page.context.new_cdp_session(page)
    devtools.send("HeapProfiler.collectGarbage")
    devtools.send("Performance.enable")
    found = {each["name"]: each["value"] for each in devtools.send("Performance.getMetrics")["metrics"]}
    return found["JSHeapUsedSize"] / 1e6


def hide(page: Page) -> None:
    """Another tab is looked at."""
    page.evaluate(_HIDE)
